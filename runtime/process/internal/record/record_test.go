// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

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
			require.NoError(t, write(dir, ExitFile, Exit{FinishedAt: time.Unix(1, 0).UTC(), Code: 3, Message: strings.Repeat("long", 1000)}))
			require.NoError(t, write(dir, ExitFile, Exit{FinishedAt: time.Unix(1, 0).UTC(), Code: 4, Message: "short"}))
			got, err := Read[Exit](dir, ExitFile)
			require.NoError(t, err)
			assert.Equal(t, Exit{FinishedAt: time.Unix(1, 0).UTC(), Code: 4, Message: "short"}, got)
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
	require.NoError(t, Write(dir, ExitFile, Exit{FinishedAt: time.Unix(1, 0).UTC(), Code: 3}))
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: old.Max}))
	err := Write(dir, ExitFile, Exit{FinishedAt: time.Unix(1, 0).UTC(), Code: 4, Message: strings.Repeat("x", 200)})
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
	require.ErrorIs(t, err, syscall.EFBIG)
	got, err := Read[Exit](dir, ExitFile)
	require.NoError(t, err)
	assert.Equal(t, int32(3), got.Code)
	require.NoError(t, Write(dir, ExitFile, Exit{FinishedAt: time.Unix(1, 0).UTC(), Code: 5}))
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

// lockID is of no container there is.
var lockID = fmt.Sprintf("record-test-%d", os.Getpid())

// TestTheLockBelongsToTheOpenFile: it is held by every process that holds a duplicate,
// and by no other.
func TestTheLockBelongsToTheOpenFile(t *testing.T) {
	dir, _ := open(t)
	held := func() bool {
		t.Helper()
		ok, err := Locked(dir, lockID)
		require.NoError(t, err)
		return ok
	}
	assert.False(t, held(), "no lock file")
	lock, err := TryLock(dir, lockID)
	require.NoError(t, err)
	assert.True(t, held())
	_, err = TryLock(dir, lockID)
	require.ErrorIs(t, err, ErrLocked)

	heir := exec.Command("sleep", "1000")
	heir.ExtraFiles = []*os.File{lock.File}
	if lock.Name != nil {
		heir.ExtraFiles = append(heir.ExtraFiles, lock.Name)
	}
	require.NoError(t, heir.Start())
	lock.Close()
	assert.True(t, held(), "the child has a duplicate")
	_, err = TryLock(dir, lockID)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, heir.Process.Kill())
	_ = heir.Wait()
	assert.False(t, held())
}

// TestTheLockOutlivesItsFile: a container can remove the lock file or put something
// else in its place.
func TestTheLockOutlivesItsFile(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("there are no abstract socket names")
	}
	for name, harm := range map[string]func(path string) error{
		"removed": os.Remove,
		"folder": func(path string) error {
			return errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "x"), 0o700))
		},
		"fifo":     func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, path := open(t)
			lock, err := TryLock(dir, lockID+name)
			require.NoError(t, err)
			require.NoError(t, harm(filepath.Join(path, LockFile)))
			held, err := Locked(dir, lockID+name)
			require.NoError(t, err)
			assert.True(t, held)
			_, err = TryLock(dir, lockID+name)
			require.ErrorIs(t, err, ErrLocked)
			lock.Close()
			held, err = Locked(dir, lockID+name)
			require.NoError(t, err)
			assert.False(t, held)
			lock, err = TryLock(dir, lockID+name)
			require.NoError(t, err, "the file is made anew")
			lock.Close()
		})
	}
}

// TestWriteOverAnything: what a container puts in the place of a record, or of the
// temporary file it is written to, does not keep it from being written.
func TestWriteOverAnything(t *testing.T) {
	harm := map[string]func(path string) error{
		"folder": func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) },
		"fifo":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":   func(path string) error { return os.Symlink(SpecFile, path) },
	}
	for _, place := range []string{ExitFile, temporary(ExitFile)} {
		for name, do := range harm {
			t.Run(place+" is a "+name, func(t *testing.T) {
				dir, path := open(t)
				require.NoError(t, do(filepath.Join(path, place)))
				Reserve(dir, ExitFile, 4096)
				require.NoError(t, WriteDurable(dir, ExitFile, Exit{FinishedAt: time.Unix(1, 0).UTC(), Code: 7}))
				exit, err := Read[Exit](dir, ExitFile)
				require.NoError(t, err)
				assert.Equal(t, int32(7), exit.Code)
				require.NoError(t, Restore(dir, ExitFile, Exit{FinishedAt: time.Unix(1, 0).UTC(), Code: 8}))
				_, err = os.Lstat(filepath.Join(path, SpecFile))
				require.ErrorIs(t, err, fs.ErrNotExist, "no link is followed")
				names, err := os.ReadDir(path)
				require.NoError(t, err)
				assert.Len(t, names, 1, "%v", names)
			})
		}
	}
}
