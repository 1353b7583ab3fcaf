// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

func open(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

func write(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte("data"), 0o644))
}

func TestRemoveAll(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	for i := range 3000 { // more than one batch
		write(t, filepath.Join(dir, "v/many", strconv.Itoa(i)))
	}
	write(t, filepath.Join(dir, "v/a/b/c"))
	write(t, filepath.Join(dir, "v/closed/deep/file"))
	write(t, filepath.Join(dir, "v/read-only/deep/file"))
	for _, name := range []string{"v/closed/deep", "v/closed", "v/read-only/deep", "v/read-only"} { // an agent need not be root
		mode := fs.FileMode(0o500)
		if filepath.Base(name) == "closed" {
			mode = 0
		}
		require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "v/pipe"), 0o600))
	write(t, filepath.Join(dir, "beside"))
	require.NoError(t, tree.RemoveAll(root, "v"))
	assert.NoDirExists(t, filepath.Join(dir, "v"))
	assert.FileExists(t, filepath.Join(dir, "beside"))
	require.NoError(t, tree.RemoveAll(root, "v"), "again")
	require.NoError(t, tree.RemoveAll(root, "beside"), "a file")
	for _, hostile := range []string{"", ".", "..", "../x", "/etc", "v/../.."} {
		require.Error(t, tree.RemoveAll(root, hostile), hostile)
	}
}

func TestRemoveAllFollowsNoLink(t *testing.T) {
	dir, precious := t.TempDir(), t.TempDir()
	root := open(t, dir)
	write(t, filepath.Join(precious, "data"))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "v/sub"), 0o755))
	require.NoError(t, os.Symlink(precious, filepath.Join(dir, "v/link")))
	require.NoError(t, os.Symlink("../../../"+precious, filepath.Join(dir, "v/sub/link")))
	require.NoError(t, tree.RemoveAll(root, "v"))
	require.NoError(t, os.Symlink(precious, filepath.Join(dir, "v")))
	require.NoError(t, tree.RemoveAll(root, "v"), "v itself is a link")
	assert.FileExists(t, filepath.Join(precious, "data"))
	assert.NoFileExists(t, filepath.Join(dir, "v"))
}

// TestRemoveAllOfDeepTree: a container nests folders deeper than there are file descriptors, or than a path may be long.
func TestRemoveAllOfDeepTree(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	require.NoError(t, root.Mkdir("v", 0o755))
	at, err := root.OpenRoot("v")
	require.NoError(t, err)
	for range 3000 {
		require.NoError(t, at.Mkdir("deeper", 0o755))
		next, err := at.OpenRoot("deeper")
		require.NoError(t, err)
		at.Close()
		at = next
	}
	at.Close()
	require.NoError(t, tree.RemoveAll(root, "v"))
	assert.NoDirExists(t, filepath.Join(dir, "v"))
}

// TestUpstream7317RemoveAllNeverEntersAMount: recursive deletion ate what users had mounted (also 37698, 72257). The
// bind mount is of the same disk, which the device number does not tell.
func TestUpstream7317RemoveAllNeverEntersAMount(t *testing.T) {
	mounttest.Need(t)
	dir, precious := t.TempDir(), t.TempDir()
	root := open(t, dir)
	write(t, filepath.Join(precious, "data"))
	write(t, filepath.Join(dir, "v/gone"))
	write(t, filepath.Join(dir, "v/z/gone"))
	for _, target := range []string{"v/sub/bound", "v/tmpfs"} {
		r := mount.Request{Source: precious, Target: filepath.Join(dir, target), Options: []string{"bind"}}
		if target == "v/tmpfs" {
			r = mount.Request{Source: "tmpfs", Target: filepath.Join(dir, target), Type: "tmpfs"}
		}
		mounttest.Mount(t, r)
	}
	write(t, filepath.Join(dir, "v/tmpfs/data"))
	require.ErrorIs(t, tree.RemoveAll(root, "v"), tree.ErrMount)
	assert.FileExists(t, filepath.Join(precious, "data"))
	assert.FileExists(t, filepath.Join(dir, "v/tmpfs/data"))
	assert.NoFileExists(t, filepath.Join(dir, "v/gone"))
	assert.NoDirExists(t, filepath.Join(dir, "v/z"), "the rest is gone")
	require.ErrorIs(t, tree.RemoveAll(root, "v/tmpfs"), tree.ErrMount, "the folder itself")
}

// TestRemoveAllWhileNamesAreSwapped: somebody swaps a folder for a link to precious data all the time.
func TestRemoveAllWhileNamesAreSwapped(t *testing.T) {
	dir, precious := t.TempDir(), t.TempDir()
	root := open(t, dir)
	for i := range 50 {
		write(t, filepath.Join(precious, "data", strconv.Itoa(i)))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		swapped, other := filepath.Join(dir, "v/swapped"), filepath.Join(dir, "v/other")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.MkdirAll(swapped, 0o755)
			_ = os.WriteFile(filepath.Join(swapped, "x"), nil, 0o600)
			_ = os.Rename(swapped, other)
			_ = os.Symlink(filepath.Join(precious, "data"), swapped)
			_ = os.Remove(swapped)
			_ = os.Rename(other, swapped)
		}
	})
	for range 300 {
		_ = tree.RemoveAll(root, "v") // may fail: there is always something new
	}
	close(stop)
	wg.Wait()
	require.NoError(t, tree.RemoveAll(root, "v"))
	entries, err := os.ReadDir(filepath.Join(precious, "data"))
	require.NoError(t, err)
	assert.Len(t, entries, 50)
}

func TestWalk(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	root := open(t, dir)
	write(t, filepath.Join(dir, "v/a/b"))
	write(t, filepath.Join(dir, "v/c"))
	write(t, filepath.Join(outside, "not"))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "v/link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "v/pipe"), 0o600))
	var names []string
	modes := map[string]fs.FileMode{}
	require.NoError(t, tree.Walk(root, "v", func(e *tree.Entry) error {
		names = append(names, e.Name)
		modes[e.Name] = e.Mode
		return nil
	}))
	assert.Equal(t, []string{"b", "a", "c", "link", "pipe", "."}, names, "what is in a folder comes before it")
	assert.Equal(t, fs.ModeDir|0o755, modes["."])
	assert.Equal(t, fs.FileMode(0o644), modes["c"])
	assert.NotZero(t, modes["link"]&fs.ModeSymlink)
	stop := errors.New("stop")
	require.ErrorIs(t, tree.Walk(root, "v", func(*tree.Entry) error { return stop }), stop)
	require.ErrorIs(t, tree.Walk(root, "none", func(*tree.Entry) error { return nil }), fs.ErrNotExist)
}

func TestWalkPassesMountsBy(t *testing.T) {
	mounttest.Need(t)
	dir, other := t.TempDir(), t.TempDir()
	root := open(t, dir)
	write(t, filepath.Join(other, "not"))
	write(t, filepath.Join(dir, "v/a"))
	mounttest.Mount(t, mount.Request{Source: other, Target: filepath.Join(dir, "v/bound"), Options: []string{"bind"}})
	var names []string
	require.NoError(t, tree.Walk(root, "v", func(e *tree.Entry) error { names = append(names, e.Name); return nil }))
	assert.Equal(t, []string{"a", "."}, names)
}
