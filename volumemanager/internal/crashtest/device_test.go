// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onDevice is the content of the file data on the block device.
const onDevice = "precious, on a device\n"

// makeDevice creates a block device with a file system and a file, which all pods share as a local
// volume. Agents mount the device themselves. Without loop devices or mkfs, there is no device and
// no such volume.
func (w *world) makeDevice(t *testing.T) {
	t.Helper()
	if !w.Mounts {
		return
	}
	file, dir := filepath.Join(w.Precious, "disk"), filepath.Join(w.Precious, "mnt")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, 4<<20))
	defer os.Remove(file) // the loop device keeps the file open
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m0", "-O", "^has_journal", file).CombinedOutput(); err != nil {
		t.Logf("no volume on a device: mkfs.ext4: %v: %s", err, out)
		return
	}
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Logf("no volume on a device: losetup: %v: %s", err, out)
		return
	}
	device := strings.TrimSpace(string(out))
	held, err := os.Open(device)
	require.NoError(t, err)
	t.Cleanup(func() { _ = held.Close() })
	// The kernel removes the device after its last close, however this process ends.
	require.NoError(t, exec.Command("losetup", "--detach", device).Run())
	w.Device = device
	require.NoError(t, withDevice(device, dir, func() error {
		return os.WriteFile(filepath.Join(dir, "data"), []byte(onDevice), 0o644)
	}))
	require.NoError(t, os.Remove(dir))
}

// withDevice calls f while the device is mounted at a new folder.
func withDevice(device, dir string, f func() error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(device, dir, "ext4", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	return errors.Join(f(), unix.Unmount(dir, 0))
}

// checkDevice checks the file on the device while no agent has the device mounted.
func (w *world) checkDevice() error {
	if w.Device == "" {
		return nil
	}
	dir := filepath.Join(filepath.Dir(w.Root), "mnt")
	err := withDevice(w.Device, dir, func() error {
		data, err := os.ReadFile(filepath.Join(dir, "data"))
		if err == nil && string(data) != onDevice {
			err = fmt.Errorf("on the device: %.60q", data)
		}
		return err
	})
	return errors.Join(err, os.Remove(dir))
}
