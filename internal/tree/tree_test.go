// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/internal/tree/treetest"
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

// TestDeepTrees: a container nests folders deeper than there are file descriptors, and than a path may be long.
func TestDeepTrees(t *testing.T) {
	for _, depth := range treetest.Depths {
		t.Run(strconv.Itoa(depth), func(t *testing.T) {
			dir := t.TempDir()
			root := open(t, dir)
			require.NoError(t, root.Mkdir("v", 0o755))
			treetest.Deep(t, filepath.Join(dir, "v"), depth)
			restore := treetest.Scarce(t, tree.MaxDescriptors)
			defer restore()
			folders, files := 0, 0
			require.NoError(t, tree.Walk(root, "v", func(e *tree.Entry) error {
				if e.Mode.IsDir() {
					folders++
					return e.Chmod(0o711)
				}
				files++
				return e.Chmod(0o611)
			}))
			assert.Equal(t, depth+1, folders)
			assert.Equal(t, 1, files)
			require.NoError(t, tree.RemoveAll(root, "v"))
			restore()
			assert.NoDirExists(t, filepath.Join(dir, "v"))
		})
	}
}

// TestWalkOfMovedFolder: a folder whose parent was closed on the way down is moved away. The walk must not continue in
// the new parent.
func TestWalkOfMovedFolder(t *testing.T) {
	const depth = 3 * tree.MaxDescriptors
	dir, outside := t.TempDir(), t.TempDir()
	root := open(t, dir)
	require.NoError(t, root.Mkdir("v", 0o755))
	treetest.Deep(t, filepath.Join(dir, "v"), depth)
	write(t, filepath.Join(outside, "other"))
	moved := filepath.Join(dir, "v", strings.Repeat("d/", tree.MaxDescriptors))
	var names []string
	err := tree.Walk(root, "v", func(e *tree.Entry) error {
		if e.Name == "f" {
			require.NoError(t, os.Rename(moved, filepath.Join(outside, "d")))
		}
		names = append(names, e.Name)
		return nil
	})
	require.ErrorIs(t, err, tree.ErrMoved)
	assert.NotContains(t, names, "other")
	assert.NotContains(t, names, ".")
	require.NoError(t, tree.RemoveAll(root, "v"), "the next call does what is left")
	require.NoError(t, tree.RemoveAll(open(t, outside), "d"))
}

// TestRemoveAllWhileNamesAreSwapped: another program continuously swaps a folder for a link to precious data.
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
	assert.Equal(t, []string{"c", "link", "pipe", "b", "a", "."}, names, "what is in a folder comes before it")
	assert.Equal(t, fs.ModeDir|0o755, modes["."])
	assert.Equal(t, fs.FileMode(0o644), modes["c"])
	assert.NotZero(t, modes["link"]&fs.ModeSymlink)
	stop := errors.New("stop")
	require.ErrorIs(t, tree.Walk(root, "v", func(*tree.Entry) error { return stop }), stop)
	require.ErrorIs(t, tree.Walk(root, "none", func(*tree.Entry) error { return nil }), fs.ErrNotExist)
}
