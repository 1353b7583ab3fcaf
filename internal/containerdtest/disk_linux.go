// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// MountDisk mounts a file system of the given size in MiB until t ends: ext4 on a loop device, or
// tmpfs without loop devices. It returns the mount point, for Options.Parent. Without the
// permission to mount, t is skipped.
func MountDisk(t testing.TB, mib int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("it takes root")
	}
	file := filepath.Join(t.TempDir(), "disk")
	dir, err := os.MkdirTemp("/tmp", "keelson-disk-") // short, because socket paths are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	err = LoopDisk(file, dir, mib)
	if err != nil {
		t.Logf("no loop device, the disk is in memory: %v", err)
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib))
	}
	if errors.Is(err, unix.EPERM) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if unix.Unmount(dir, 0) != nil {
			_ = unix.Unmount(dir, unix.MNT_DETACH) // a failed test may still use the mount
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// LoopDisk makes a file with an ext4 file system of the given size in MiB, and mounts the file system
// on dir. The device goes with the last mount, and the file has only the blocks in use.
func LoopDisk(file, dir string, mib int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(int64(mib)<<20), f.Close()); err != nil {
		return err
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", file}, {"mount", "-o", "loop,discard", file, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command[0], err, out)
		}
	}
	return nil
}
