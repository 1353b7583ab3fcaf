// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/internal/tree/treetest"
)

// mount mounts source at a new folder, or skips the test. The mount is removed when the test ends.
func mount(t *testing.T, source, target, fstype string, flags uintptr) {
	t.Helper()
	require.NoError(t, os.MkdirAll(target, 0o755))
	if err := unix.Mount(source, target, fstype, flags, ""); err != nil {
		t.Skipf("this process cannot mount: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(target, 0)) })
}

// TestUpstream7317RemoveAllNeverEntersAMount: recursive deletion removed the content of users' mounts (also 37698,
// 72257). The bind mount is of the same disk, so its device number does not differ.
func TestUpstream7317RemoveAllNeverEntersAMount(t *testing.T) {
	dir, precious := t.TempDir(), t.TempDir()
	root := open(t, dir)
	write(t, filepath.Join(precious, "data"))
	write(t, filepath.Join(dir, "v/gone"))
	write(t, filepath.Join(dir, "v/z/gone"))
	mount(t, precious, filepath.Join(dir, "v/sub/bound"), "", unix.MS_BIND)
	mount(t, "tmpfs", filepath.Join(dir, "v/tmpfs"), "tmpfs", 0)
	write(t, filepath.Join(dir, "v/tmpfs/data"))
	require.ErrorIs(t, tree.RemoveAll(root, "v"), tree.ErrMount)
	assert.FileExists(t, filepath.Join(precious, "data"))
	assert.FileExists(t, filepath.Join(dir, "v/tmpfs/data"))
	assert.NoFileExists(t, filepath.Join(dir, "v/gone"))
	assert.NoDirExists(t, filepath.Join(dir, "v/z"), "the rest is gone")
	require.ErrorIs(t, tree.RemoveAll(root, "v/tmpfs"), tree.ErrMount, "the folder itself")
}

func TestWalkPassesMountsBy(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	root := open(t, dir)
	write(t, filepath.Join(other, "not"))
	write(t, filepath.Join(dir, "v/a"))
	mount(t, other, filepath.Join(dir, "v/bound"), "", unix.MS_BIND)
	var names []string
	require.NoError(t, tree.Walk(root, "v", func(e *tree.Entry) error { names = append(names, e.Name); return nil }))
	assert.Equal(t, []string{"a", "."}, names)
}

// TestMountInDeepTree: a mount 2,000 levels down stays, and the error names it in few bytes.
func TestMountInDeepTree(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	require.NoError(t, root.Mkdir("v", 0o755))
	const levels = 2000
	treetest.Deep(t, filepath.Join(dir, "v"), levels)
	at, err := os.Open(filepath.Join(dir, "v"))
	require.NoError(t, err)
	defer func() { at.Close() }()
	for range levels {
		fd, err := unix.Openat(int(at.Fd()), "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, at.Close())
		at = os.NewFile(uintptr(fd), "d")
	}
	last := "/proc/self/fd/" + strconv.Itoa(int(at.Fd()))
	require.NoError(t, os.Mkdir(last+"/m", 0o755))
	if err := unix.Mount("tmpfs", last+"/m", "tmpfs", 0, ""); err != nil {
		t.Skipf("this process cannot mount: %v", err)
	}
	err = tree.RemoveAll(root, "v")
	require.ErrorIs(t, err, tree.ErrMount)
	assert.Less(t, len(err.Error()), 1024)
	assert.NoFileExists(t, last+"/f")
	assert.DirExists(t, last+"/m")
	require.NoError(t, unix.Unmount(last+"/m", 0))
	require.NoError(t, tree.RemoveAll(root, "v"))
}
