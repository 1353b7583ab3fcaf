// SPDX-License-Identifier: Apache-2.0

// Package mounttest supports tests with real mounts: it skips the tests if the process cannot
// mount, and removes mounts left by the tests.
package mounttest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// Need returns a Mounter that really mounts, or skips the test.
func Need(tb testing.TB) mount.Mounter {
	tb.Helper()
	m := mount.Detect()
	if _, none := m.(mount.None); none {
		tb.Skip("this process cannot mount: it needs Linux and CAP_SYS_ADMIN")
	}
	return m
}

// Dir returns a temporary folder whose mounts are removed at the end of the test. See Clean.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	Clean(tb, dir)
	return dir
}

// Clean unmounts the mounts left below a folder at the end of the test, the last mount first, and
// fails the test for each. Otherwise the removal of the test's temporary folder would remove the
// mounted files.
func Clean(tb testing.TB, dir string) {
	tb.Helper()
	tb.Cleanup(func() {
		for _, target := range Below(tb, dir) {
			tb.Errorf("%s is left mounted", target)
			if err := mount.Detect().Unmount(context.Background(), target); err != nil {
				tb.Error(err)
			}
		}
	})
}

// Below returns the mount points at or below a folder, the last mount first.
func Below(tb testing.TB, dir string) []string {
	tb.Helper()
	mounts, err := mount.None{}.List()
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for _, m := range mounts {
		if m.Target == dir || strings.HasPrefix(m.Target, dir+string(filepath.Separator)) {
			out = append([]string{m.Target}, out...)
		}
	}
	return out
}

// Mount mounts r, and unmounts it at the end of the test.
func Mount(tb testing.TB, r mount.Request) {
	tb.Helper()
	m := Need(tb)
	if err := os.MkdirAll(r.Target, 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := m.Mount(context.Background(), r); err != nil {
		tb.Skipf("cannot mount %s here: %v", r.Type, err)
	}
	tb.Cleanup(func() {
		if err := m.Unmount(context.Background(), r.Target); err != nil {
			tb.Error(err)
		}
	})
}

// Tmpfs mounts a tmpfs of a size ("64k") at a new folder, and returns the folder.
func Tmpfs(tb testing.TB, size string) string {
	tb.Helper()
	target := filepath.Join(tb.TempDir(), "tmpfs")
	Mount(tb, mount.Request{Source: "tmpfs", Target: target, Type: "tmpfs", Options: []string{"size=" + size}})
	return target
}

// Loop returns a block device of a size in bytes, backed by a file of zeros, or skips the test.
func Loop(tb testing.TB, size int64) string {
	tb.Helper()
	Need(tb)
	file := filepath.Join(tb.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		tb.Fatal(err)
	}
	out, err := exec.Command("losetup", "-f", "--show", file).CombinedOutput()
	if err != nil {
		tb.Skipf("no loop device here: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	tb.Cleanup(func() {
		if out, err := exec.Command("losetup", "-d", device).CombinedOutput(); err != nil {
			tb.Errorf("losetup -d %s: %v: %s", device, err, out)
		}
	})
	return device
}
