// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func open(t *testing.T) (*os.Root, string) {
	t.Helper()
	path := t.TempDir()
	dir, err := os.OpenRoot(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	return dir, path
}

func TestWriteAndRead(t *testing.T) {
	for name, write := range map[string]func(*os.Root, string, Exit) error{"write": Write[Exit], "durable": WriteDurable[Exit]} {
		t.Run(name, func(t *testing.T) {
			dir, path := open(t)
			Reserve(dir, ExitFile, 1<<16)
			require.NoError(t, write(dir, ExitFile, Exit{Code: 3, Message: strings.Repeat("long", 1000)}))
			require.NoError(t, write(dir, ExitFile, Exit{Code: 4, Message: "short"}))
			got, err := Read[Exit](dir, ExitFile)
			require.NoError(t, err)
			assert.Equal(t, Exit{Code: 4, Message: "short"}, got)
			entries, err := os.ReadDir(path)
			require.NoError(t, err)
			require.Len(t, entries, 1, "no temporary file is left")
			info, err := entries[0].Info()
			require.NoError(t, err)
			assert.Equal(t, fs.FileMode(0o600), info.Mode())
		})
	}
}

// TestAWriteThatFailsChangesNothing fills the disk by a limit on file size.
func TestAWriteThatFailsChangesNothing(t *testing.T) {
	dir, _ := open(t)
	require.NoError(t, Write(dir, ExitFile, Exit{Code: 3}))
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: old.Max}))
	err := Write(dir, ExitFile, Exit{Code: 4, Message: strings.Repeat("x", 200)})
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
	require.ErrorIs(t, err, syscall.EFBIG)
	got, err := Read[Exit](dir, ExitFile)
	require.NoError(t, err)
	assert.Equal(t, int32(3), got.Code)
	require.NoError(t, Write(dir, ExitFile, Exit{Code: 5}))
	got, err = Read[Exit](dir, ExitFile)
	require.NoError(t, err)
	assert.Equal(t, int32(5), got.Code, "what a failed write left does not show")
}

func TestCorruptRecords(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"empty":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"torn":    func(path string) error { return os.WriteFile(path, []byte(`{"env":["TOKEN=hunter2"`), 0o600) },
		"garbage": func(path string) error { return os.WriteFile(path, []byte("hunter2"), 0o600) },
		"folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"fifo":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":    func(path string) error { return os.Symlink("/etc/hostname", path) },
		"huge": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxSize+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, path := open(t)
			require.NoError(t, make(filepath.Join(path, SpecFile)))
			_, err := Read[Spec](dir, SpecFile)
			var bad *CorruptError
			require.ErrorAs(t, err, &bad)
			assert.Contains(t, err.Error(), SpecFile)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
	dir, _ := open(t)
	_, err := Read[Spec](dir, SpecFile)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func FuzzReadSpec(f *testing.F) {
	f.Add([]byte(`{"id":"x","args":["a"],"env":["A=b"],"createdAt":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"id":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir, path := open(t)
		require.NoError(t, os.WriteFile(filepath.Join(path, SpecFile), raw, 0o600))
		if spec, err := Read[Spec](dir, SpecFile); err == nil {
			require.NoError(t, Write(dir, SpecFile, spec))
		}
	})
}

// TestTheLockBelongsToTheOpenFile: it is held by whoever holds a duplicate, in
// whatever process, and by nobody else.
func TestTheLockBelongsToTheOpenFile(t *testing.T) {
	dir, path := open(t)
	held := func() bool {
		t.Helper()
		ok, err := Locked(dir)
		require.NoError(t, err)
		return ok
	}
	assert.False(t, held(), "no lock file")
	lock, err := TryLock(dir)
	require.NoError(t, err)
	assert.True(t, held())
	_, err = TryLock(dir)
	require.ErrorIs(t, err, ErrLocked)

	heir := exec.Command("sleep", "1000")
	heir.ExtraFiles = []*os.File{lock}
	require.NoError(t, heir.Start())
	require.NoError(t, lock.Close())
	assert.True(t, held(), "the child has a duplicate")
	require.NoError(t, heir.Process.Kill())
	_ = heir.Wait()
	assert.False(t, held())

	lock, err = TryLock(dir)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	require.NoError(t, os.Remove(filepath.Join(path, LockFile)))
	require.NoError(t, syscall.Mkfifo(filepath.Join(path, LockFile), 0o600))
	_, err = Locked(dir)
	_ = err // whatever it is, it does not block
}
