// SPDX-License-Identifier: Apache-2.0

//go:build unix

package volumemanager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A removal does not enter another file system, and says so. What is gone meanwhile is no failure.
func TestRemoverStaysOnItsFileSystem(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	info, err := root.Lstat("folder")
	require.NoError(t, err)
	device, err := deviceOf(info)
	require.NoError(t, err)
	for _, c := range []struct {
		name           string
		device         uint64
		folder, exists bool
		left           []string
	}{
		{"folder", 0, true, true, nil},
		{"folder", 1, false, false, []string{"folder (another file system)"}},
		{"file", 0, false, true, nil},
		{"nothing", 0, false, false, nil},
	} {
		t.Run(fmt.Sprint(c.name, c.device), func(t *testing.T) {
			r := remover{root: root, device: device + c.device}
			info := r.enter(c.name)
			assert.Equal(t, [2]bool{c.folder, c.exists}, [2]bool{info != nil && info.IsDir(), info != nil})
			assert.Equal(t, c.left, r.left)
			assert.Empty(t, r.errs)
		})
	}
	var r remover
	busy := errors.New("busy")
	for _, err := range []error{nil, fs.ErrNotExist, busy, fmt.Errorf("gone: %w", fs.ErrNotExist)} {
		r.fail(err)
	}
	assert.Equal(t, []error{busy}, r.errs)
}

// Files are removed only if they may be, and are empty.
func TestRemoverLeavesFiles(t *testing.T) {
	for _, c := range []struct {
		files  fate
		text   string
		remain bool
	}{{fateKeep, "", true}, {fateRemove, "", false}, {fateRemove, "t", true}} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(c.text), 0o600))
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer root.Close()
		info, err := root.Lstat(".")
		require.NoError(t, err)
		device, err := deviceOf(info)
		require.NoError(t, err)
		r := remover{root: root, device: device}
		r.removeEmpty("file", 1, c.files)
		_, err = os.Lstat(filepath.Join(dir, "file"))
		assert.Equal(t, c.remain, err == nil)
		assert.Equal(t, c.remain, len(r.left) == 1)
	}
}
