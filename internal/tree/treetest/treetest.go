// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package treetest is for tests of code that walks folders of containers. It makes trees deeper than the limits of file
// descriptors and path length, and limits the file descriptors of a test.
package treetest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/tree"
)

// Depths are the depths to test: more levels than the usual 1,024 file descriptors, and more than the 4,096 bytes of a
// path.
var Depths = []int{1500, 5000}

// Deep makes a tree in the existing folder dir: nested folders named "d", and an empty file named "f" in the innermost.
// The rest of the tree is removed at the end of the test.
func Deep(tb testing.TB, dir string, levels int) {
	tb.Helper()
	tb.Cleanup(func() { remove(tb, filepath.Join(dir, "d")) })
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 0; i < levels && err == nil; i++ {
		if err = unix.Mkdirat(at, "d", 0o755); err != nil {
			break
		}
		var next int
		next, err = unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(at)
		at = next
	}
	if err == nil {
		var f int
		f, err = unix.Openat(at, "f", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		unix.Close(f)
		unix.Close(at)
	}
	if err != nil {
		tb.Fatalf("make a tree of %d levels in %s: %v", levels, dir, err)
	}
}

func remove(tb testing.TB, dir string) {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		defer root.Close()
		err = tree.RemoveAll(root, filepath.Base(dir))
	}
	if err != nil {
		tb.Error(err)
	}
}

// descriptors is the RLIMIT_NOFILE set by Scarce.
const descriptors = 1024

// Scarce lowers the limit of the process to 1,024 file descriptors and uses all but free descriptors, until the
// returned function is called. No other test may run at the same time.
func Scarce(tb testing.TB, free int) (restore func()) {
	tb.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		tb.Fatal(err)
	}
	few := before
	few.Cur = descriptors
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		tb.Fatal(err)
	}
	var used []int
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		used = append(used, fd)
	}
	restore = func() {
		for _, fd := range used {
			unix.Close(fd)
		}
		used = nil
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			tb.Error(err)
		}
	}
	if len(used) < free {
		restore()
		tb.Fatalf("%d file descriptors are free, want %d", len(used), free)
	}
	for _, fd := range used[len(used)-free:] {
		unix.Close(fd)
	}
	used = used[:len(used)-free]
	return restore
}
