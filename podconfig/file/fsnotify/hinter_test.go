// SPDX-License-Identifier: Apache-2.0

package fsnotify_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
)

// patience is the longest wait for an expected event. Only a failing test waits that long.
const patience = 20 * time.Second

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// watch starts a watch that ends with the test.
func watch(t *testing.T, path string) <-chan struct{} {
	t.Helper()
	hints, err := fsnotify.Hinter{}.Hints(t.Context(), path)
	require.NoError(t, err)
	return hints
}

// hinted waits for a hint.
func hinted(t *testing.T, hints <-chan struct{}) {
	t.Helper()
	select {
	case <-hints:
	case <-time.After(patience):
		require.Fail(t, "no hint")
	}
}

// ended waits for the end of the watch.
func ended(t *testing.T, hints <-chan struct{}) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case _, open := <-hints:
			if !open {
				return
			}
		case <-limit:
			require.Fail(t, "the watch goes on")
		}
	}
}

// goesOn drains hints until a pause, and fails if the watch ends first.
func goesOn(t *testing.T, hints <-chan struct{}) {
	t.Helper()
	for {
		select {
		case _, open := <-hints:
			require.True(t, open, "the watch ended")
		case <-time.After(300 * time.Millisecond):
			return
		}
	}
}

func TestHints(t *testing.T) {
	tests := []struct {
		name  string
		path  string // below the test's folder, which holds dir/a and other/
		do    func(t *testing.T, base string)
		ended bool
	}{
		{"write", "dir", func(t *testing.T, b string) { write(t, b+"/dir/a", "x") }, false},
		{"create", "dir", func(t *testing.T, b string) { write(t, b+"/dir/b", "x") }, false},
		{"remove", "dir", func(t *testing.T, b string) { require.NoError(t, os.Remove(b+"/dir/a")) }, false},
		{"rename over", "dir", func(t *testing.T, b string) { require.NoError(t, os.Rename(b+"/other/a", b+"/dir/a")) }, false},
		{"rename away", "dir", func(t *testing.T, b string) { require.NoError(t, os.Rename(b+"/dir/a", b+"/other/b")) }, false},
		{"mode", "dir", func(t *testing.T, b string) { require.NoError(t, os.Chmod(b+"/dir/a", 0o600)) }, false},
		{"link", "dir", func(t *testing.T, b string) { require.NoError(t, os.Symlink("a", b+"/dir/..data")) }, false},
		{"mode of the folder", "dir", func(t *testing.T, b string) { require.NoError(t, os.Chmod(b+"/dir", 0o700)) }, false},
		{"folder removed", "dir", func(t *testing.T, b string) { require.NoError(t, os.RemoveAll(b+"/dir")) }, true},
		{"folder renamed", "dir", func(t *testing.T, b string) { require.NoError(t, os.Rename(b+"/dir", b+"/dir2")) }, true},
		{"link to the folder turned", "link", func(t *testing.T, b string) {
			require.NoError(t, os.Symlink("other", b+"/new"))
			require.NoError(t, os.Rename(b+"/new", b+"/link"))
		}, true},
		{"single file written", "dir/a", func(t *testing.T, b string) { write(t, b+"/dir/a", "x") }, false},
		{"single file renamed over", "dir/a", func(t *testing.T, b string) { require.NoError(t, os.Rename(b+"/other/a", b+"/dir/a")) }, false},
		{"single file removed", "dir/a", func(t *testing.T, b string) { require.NoError(t, os.Remove(b+"/dir/a")) }, false},
		{"single file becomes folder", "dir/a", func(t *testing.T, b string) {
			require.NoError(t, os.Remove(b+"/dir/a"))
			require.NoError(t, os.Mkdir(b+"/dir/a", 0o755))
		}, true},
		{"single file's folder removed", "dir/a", func(t *testing.T, b string) { require.NoError(t, os.RemoveAll(b+"/dir")) }, true},
		{"folder made", "new", func(t *testing.T, b string) { require.NoError(t, os.Mkdir(b+"/new", 0o755)) }, true},
		{"folder above made", "new/er/est", func(t *testing.T, b string) { require.NoError(t, os.Mkdir(b+"/new", 0o755)) }, true},
		{"file made", "new", func(t *testing.T, b string) { write(t, b+"/new", "x") }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			require.NoError(t, os.Mkdir(base+"/dir", 0o755))
			require.NoError(t, os.Mkdir(base+"/other", 0o755))
			require.NoError(t, os.Symlink("dir", base+"/link"))
			write(t, base+"/dir/a", "a")
			write(t, base+"/other/a", "other")
			hints := watch(t, filepath.Join(base, tt.path))
			tt.do(t, base)
			hinted(t, hints)
			if tt.ended {
				ended(t, hints)
			} else {
				goesOn(t, hints)
			}
		})
	}
}

func TestNeighboursOfAFolderAreIgnored(t *testing.T) {
	base := t.TempDir()
	require.NoError(t, os.Mkdir(base+"/dir", 0o755))
	hints := watch(t, base+"/dir")
	for range 10 {
		write(t, base+"/neighbour", "x")
		require.NoError(t, os.Remove(base+"/neighbour"))
	}
	write(t, base+"/dir/a", "x")
	hinted(t, hints)
	goesOn(t, hints)
	write(t, base+"/neighbour", "x")
	select {
	case <-hints:
		assert.Fail(t, "hint at a neighbour")
	case <-time.After(100 * time.Millisecond):
	}
}

func TestManyChangesNeverBlock(t *testing.T) {
	base := t.TempDir()
	hints := watch(t, base)
	for range 500 { // no receiver
		write(t, base+"/a", "x")
	}
	hinted(t, hints)
	goesOn(t, hints)
}

func TestWatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hints, err := fsnotify.Hinter{}.Hints(ctx, t.TempDir())
	require.NoError(t, err)
	cancel()
	ended(t, hints)
}
