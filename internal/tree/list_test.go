// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/tree"
)

func TestList(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.Mkdir(outside, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub", "folder"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "file"), nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "sub", "link")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "sub", "dangling")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()

	list, err := tree.List(root, "sub")
	require.NoError(t, err)
	assert.Equal(t, []tree.Child{{"dangling", fs.ModeSymlink}, {"file", 0}, {"folder", fs.ModeDir}, {"link", fs.ModeSymlink}}, list)

	_, err = tree.List(root, "missing")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = tree.List(root, "sub/link")
	assert.Error(t, err, "a link that leads out of the root is not followed")
	_, err = tree.List(root, "fifo")
	assert.Error(t, err, "a pipe without a writer does not block")
}
