// SPDX-License-Identifier: Apache-2.0

package atomicfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

func open(t *testing.T) *os.Root {
	t.Helper()
	dir, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { dir.Close() })
	return dir
}

func names(t *testing.T, dir *os.Root) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir.Name())
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestWrite(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "precious")
	require.NoError(t, os.WriteFile(outside, []byte("data"), 0o600))
	for name, prepare := range map[string]func(dir *os.Root) error{
		"new":                          func(*os.Root) error { return nil },
		"old content":                  func(dir *os.Root) error { return dir.WriteFile("file", []byte("old, and longer"), 0o644) },
		"link in place of the file":    func(dir *os.Root) error { return dir.Symlink(outside, "file") },
		"temporary file left":          func(dir *os.Root) error { return dir.WriteFile("file.tmp", []byte("half"), 0o644) },
		"link as the temporary file":   func(dir *os.Root) error { return dir.Symlink(outside, "file.tmp") },
		"pipe as the temporary file":   func(dir *os.Root) error { return syscall.Mkfifo(filepath.Join(dir.Name(), "file.tmp"), 0o600) },
		"folder as the temporary file": func(dir *os.Root) error { return dir.Mkdir("file.tmp", 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := open(t)
			require.NoError(t, prepare(dir))
			require.NoError(t, atomicfile.WritePath(filepath.Join(dir.Name(), "file"), []byte("new")))
			data, err := atomicfile.Read(dir, "file", 3)
			require.NoError(t, err)
			assert.Equal(t, "new", string(data))
			assert.Equal(t, []string{"file"}, names(t, dir))
			info, err := dir.Lstat("file")
			require.NoError(t, err)
			assert.Equal(t, fs.FileMode(0o600), info.Mode())
			precious, err := os.ReadFile(outside)
			require.NoError(t, err)
			assert.Equal(t, "data", string(precious))
		})
	}
}

func TestWriteThatFails(t *testing.T) {
	dir := open(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir.Name(), "file/full"), 0o700))
	require.Error(t, atomicfile.Write(dir, "file", []byte("new")), "a folder is no file that is replaced")
	assert.Equal(t, []string{"file"}, names(t, dir), "no temporary file is left")
	require.ErrorIs(t, atomicfile.Write(dir, "missing/file", nil), fs.ErrNotExist)
	require.ErrorIs(t, atomicfile.WritePath(filepath.Join(dir.Name(), "missing/file"), nil), fs.ErrNotExist)
	require.Error(t, atomicfile.Write(dir, "../file", nil), "outside of the folder")
	require.NoError(t, dir.WriteFile("there", []byte("old"), 0o600))
	require.ErrorIs(t, atomicfile.Create(dir, "there", []byte("new"), true), fs.ErrExist)
	data, err := atomicfile.Read(dir, "there", 10)
	require.NoError(t, err)
	assert.Equal(t, "old", string(data))
}

func TestRead(t *testing.T) {
	dir := open(t)
	path := func(name string) string { return filepath.Join(dir.Name(), name) }
	require.NoError(t, os.WriteFile(path("small"), []byte("1234"), 0o600))
	require.NoError(t, os.WriteFile(path("large"), nil, 0o600))
	require.NoError(t, os.Truncate(path("large"), 1<<40))
	require.NoError(t, os.Mkdir(path("folder"), 0o700))
	require.NoError(t, syscall.Mkfifo(path("pipe"), 0o600))
	data, err := atomicfile.ReadPath(path("small"), 4)
	require.NoError(t, err)
	assert.Equal(t, "1234", string(data))
	for name, want := range map[string]error{
		"small": atomicfile.ErrTooLarge, "large": atomicfile.ErrTooLarge, "folder": atomicfile.ErrNotRegular,
		"pipe": atomicfile.ErrNotRegular, "missing": fs.ErrNotExist,
	} {
		_, err := atomicfile.Read(dir, name, 3)
		require.ErrorIs(t, err, want, name)
		_, err = atomicfile.ReadPath(path(name), 3)
		require.ErrorIs(t, err, want, name)
	}
	_, err = atomicfile.ReadPath(path("missing/file"), 3)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestClear(t *testing.T) {
	for _, place := range []string{"file", "file.tmp"} {
		dir := open(t)
		require.NoError(t, os.MkdirAll(filepath.Join(dir.Name(), place, "full/a"), 0o700))
		require.Error(t, atomicfile.Write(dir, "file", []byte("new")), place)
		require.NoError(t, atomicfile.Clear(dir, "file"), place)
		require.NoError(t, atomicfile.Write(dir, "file", []byte("new")), place)
		require.NoError(t, atomicfile.Clear(dir, "file"), "a file stays")
		assert.Equal(t, []string{"file"}, names(t, dir), place)
	}
}

func TestRemove(t *testing.T) {
	dir := open(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir.Name(), "folder/a"), 0o700))
	require.NoError(t, dir.WriteFile("file", nil, 0o600))
	for _, name := range []string{"file", "folder", "missing"} {
		require.NoError(t, atomicfile.Remove(dir, name), name)
	}
	assert.Empty(t, names(t, dir))
	require.Error(t, atomicfile.Remove(dir, "../x"))
}
