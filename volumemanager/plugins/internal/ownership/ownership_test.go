// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/internal/tree/treetest"
)

// world is a folder for a group, and a folder outside that must stay unchanged.
type world struct {
	dir, outside string
	root         *os.Root
}

func newWorld(t *testing.T) world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root gives files to any group")
	}
	w := world{dir: t.TempDir(), outside: t.TempDir()}
	require.NoError(t, os.Chmod(w.dir, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "d/e"), 0o700))
	for name, mode := range map[string]fs.FileMode{"ro": 0o400, "exec": 0o755, "d/e/suid": 0o755 | fs.ModeSetuid} {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, name), nil, 0o600))
		require.NoError(t, os.Chmod(filepath.Join(w.dir, name), mode))
	}
	require.NoError(t, os.WriteFile(filepath.Join(w.outside, "shadow"), nil, 0o600))
	require.NoError(t, os.Symlink(filepath.Join(w.outside, "shadow"), filepath.Join(w.dir, "d/link")))
	require.NoError(t, os.Symlink(w.outside, filepath.Join(w.dir, "dirlink")))
	var err error
	w.root, err = os.OpenRoot(w.dir)
	require.NoError(t, err)
	t.Cleanup(func() { w.root.Close() })
	return w
}

func (w world) look(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Lstat(filepath.Join(w.dir, name))
	require.NoError(t, err)
	return fmt.Sprint(info.Mode(), " ", info.Sys().(*syscall.Stat_t).Gid)
}

func (w world) checkOutside(t *testing.T) {
	t.Helper()
	for _, name := range []string{w.outside, filepath.Join(w.outside, "shadow")} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		assert.Zero(t, info.Sys().(*syscall.Stat_t).Gid, "links are not followed")
		assert.Zero(t, info.Mode()&fs.ModeSetgid)
	}
}

func TestApply(t *testing.T) {
	for _, tc := range []struct {
		access Access
		want   map[string]string
	}{
		{ReadWrite, map[string]string{
			".": "dgrwxrwxr-x 1234", "d/e": "dgrwxrwx--- 1234", "ro": "-rw-rw---- 1234", "exec": "-rwxrwxr-x 1234",
			"d/e/suid": "urwxrwxr-x 1234", "d/link": "Lrwxrwxrwx 1234",
		}},
		{ReadOnly, map[string]string{
			".": "dgrwxr-xr-x 1234", "d/e": "dgrwxr-x--- 1234", "ro": "-r--r----- 1234", "exec": "-rwxr-xr-x 1234",
			"d/e/suid": "urwxr-xr-x 1234", "d/link": "Lrwxrwxrwx 1234",
		}},
	} {
		t.Run(fmt.Sprint(tc.access), func(t *testing.T) {
			w := newWorld(t)
			for range 2 { // the second time changes nothing
				require.NoError(t, Apply(t.Context(), w.root, ".", Request{Group: 1234, Access: tc.access}))
				for name, want := range tc.want {
					assert.Equal(t, want, w.look(t, name), name)
				}
				w.checkOutside(t)
			}
		})
	}
}

func TestOnRootMismatch(t *testing.T) {
	w := newWorld(t)
	onMismatch := v1.FSGroupChangeOnRootMismatch
	r := Request{Group: 1234, Policy: &onMismatch}
	require.NoError(t, Apply(t.Context(), w.root, ".", r))
	assert.Equal(t, "-rw-rw---- 1234", w.look(t, "ro"))

	require.NoError(t, os.Chmod(filepath.Join(w.dir, "ro"), 0o400))
	require.NoError(t, Apply(t.Context(), w.root, ".", r))
	assert.Equal(t, "-r-------- 1234", w.look(t, "ro"), "the root matches, nothing below was looked at")

	for name, spoil := range map[string]func() error{
		"group":  func() error { return os.Chown(w.dir, -1, 1) },
		"setgid": func() error { return os.Chmod(w.dir, 0o775) },
		"bits":   func() error { return os.Chmod(w.dir, 0o755|fs.ModeSetgid) },
	} {
		require.NoError(t, spoil(), name)
		require.NoError(t, os.Chmod(filepath.Join(w.dir, "ro"), 0o400))
		require.NoError(t, Apply(t.Context(), w.root, ".", r))
		assert.Equal(t, "-rw-rw---- 1234", w.look(t, "ro"), name)
	}
}

// TestUnfinishedWalkIsWalkedAgain: the root is changed last, so that OnRootMismatch repeats an
// unfinished walk.
func TestUnfinishedWalkIsWalkedAgain(t *testing.T) {
	w := newWorld(t)
	onMismatch := v1.FSGroupChangeOnRootMismatch
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	require.ErrorIs(t, Apply(ctx, w.root, ".", Request{Group: 1234, Policy: &onMismatch}), why)
	assert.Equal(t, "drwxr-xr-x 0", w.look(t, "."))
	require.NoError(t, Apply(t.Context(), w.root, ".", Request{Group: 1234, Policy: &onMismatch}))
	assert.Equal(t, "urwxrwxr-x 1234", w.look(t, "d/e/suid"))
}

func TestBadGroup(t *testing.T) {
	for _, g := range []int64{-1, 1<<32 - 1, 1 << 40} {
		require.Error(t, Apply(t.Context(), nil, ".", Request{Group: g}))
	}
}

func TestUpstream69699ProgressIsTold(t *testing.T) {
	w := newWorld(t)
	for i := range 2500 {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, fmt.Sprint("f", i)), nil, 0o600))
	}
	var seen []int
	require.NoError(t, Apply(t.Context(), w.root, ".", Request{Group: 1234, Progress: func(n int) { seen = append(seen, n) }}))
	assert.Equal(t, []int{1000, 2000}, seen)
}

// TestSwappedLinksAreNotFollowed: during the walk, a container swaps a file for a link to a file of
// the node.
func TestSwappedLinksAreNotFollowed(t *testing.T) {
	w := newWorld(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		file, spare := filepath.Join(w.dir, "swapped"), filepath.Join(w.dir, "spare")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.WriteFile(spare, nil, 0o600)
			_ = os.Rename(spare, file)
			_ = os.Symlink(filepath.Join(w.outside, "shadow"), spare)
			_ = os.Rename(spare, file)
		}
	})
	for i := range 500 {
		_ = Apply(t.Context(), w.root, ".", Request{Group: int64(1000 + i%2)}) // a removed file is not an error, other races may be
	}
	close(stop)
	wg.Wait()
	w.checkOutside(t)
}

// TestApplyToDeepTree: a container nests folders deeper than the agent's limit of file descriptors.
// The volume must stay mountable, and the agent must not run out of descriptors.
func TestApplyToDeepTree(t *testing.T) {
	for _, depth := range treetest.Depths[:1] {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			w := newWorld(t)
			require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "d")))
			treetest.Deep(t, w.dir, depth)
			restore := treetest.Scarce(t, tree.MaxDescriptors)
			defer restore()
			require.NoError(t, Apply(context.Background(), w.root, ".", Request{Group: 1234}))
			given := 0
			require.NoError(t, tree.Walk(w.root, "d", func(e *tree.Entry) error {
				if e.GID == 1234 {
					given++
				}
				return nil
			}))
			restore()
			assert.Equal(t, depth+1, given)
		})
	}
}
