// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxSize bounds the size of a record in bytes. A pod's spec has at most 1.5 MiB.
const maxSize = 8 << 20

// A CorruptError is the error of an unreadable record, after a crash of the machine or a change by
// another program. The error never quotes content.
type CorruptError struct {
	Path string
	Err  error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("record %s: %v", e.Path, e.Err) }

func (e *CorruptError) Unwrap() error { return e.Err }

// Read reads a record. Every error is fs.ErrNotExist or a *CorruptError.
func Read[T any](dir *os.Root, name string) (T, error) {
	var v, zero T
	raw, err := load(dir, name)
	if err != nil {
		return zero, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return zero, corrupt(dir, name, err)
	}
	if r, ok := any(v).(interface{ complete() bool }); ok && !r.complete() {
		return zero, corrupt(dir, name, errors.New("it is not complete"))
	}
	return v, nil
}

func corrupt(dir *os.Root, name string, err error) error {
	return &CorruptError{Path: filepath.Join(dir.Name(), name), Err: err}
}

// load reads the file of a record. Every error is fs.ErrNotExist or a *CorruptError.
func load(dir *os.Root, name string) ([]byte, error) {
	// O_NONBLOCK: a fifo in the place of a record must not block the caller.
	f, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, corrupt(dir, name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, corrupt(dir, name, err)
	case !info.Mode().IsRegular():
		return nil, corrupt(dir, name, errors.New("not a regular file"))
	case info.Size() > maxSize:
		return nil, corrupt(dir, name, fmt.Errorf("%d bytes, more than %d", info.Size(), maxSize))
	}
	raw := make([]byte, info.Size())
	if _, err := io.ReadFull(f, raw); err != nil {
		return nil, corrupt(dir, name, err)
	}
	return raw, nil
}

// Write writes a record with mode 0600. Readers see the old record or the new record. After a crash
// of the machine the file may be missing or empty.
func Write[T any](dir *os.Root, name string, v T) error {
	return write(dir, name, v, nil)
}

// WriteDurable is Write for a record that must survive a crash of the machine.
func WriteDurable[T any](dir *os.Root, name string, v T) error {
	return write(dir, name, v, (*os.File).Sync)
}

// Create writes a record into a folder that no reader and no container knows yet.
func Create[T any](dir *os.Root, name string, v T) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	return dir.WriteFile(name, raw, 0o600)
}

// write writes a temporary file, calls settle for the file, and renames the file.
func write[T any](dir *os.Root, name string, v T, settle func(*os.File) error) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	tmp := temporary(name)
	f, err := openTemporary(dir, tmp)
	if err != nil {
		return err
	}
	if _, err = f.Write(raw); err == nil {
		err = f.Truncate(int64(len(raw)))
	}
	if err == nil && settle != nil {
		err = settle(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	if err := rename(dir, tmp, name); err != nil {
		return err
	}
	if settle == nil {
		return nil
	}
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(settle(d), d.Close())
}

// openTemporary opens a temporary file for writing, without O_TRUNC, because Reserve may have
// reserved space in the file. A folder, fifo or link in the place of the file is removed.
// Containers of this user can make such files.
func openTemporary(dir *os.Root, tmp string) (*os.File, error) {
	if info, err := dir.Lstat(tmp); err == nil && !info.Mode().IsRegular() {
		if err := dir.RemoveAll(tmp); err != nil {
			return nil, err
		}
	}
	return dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o600)
}

// rename renames a record, and removes a folder in the place of the record.
func rename(dir *os.Root, from, to string) error {
	err := dir.Rename(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(dir.RemoveAll(to), dir.Rename(from, to))
}

// Restore writes a damaged record. Unlike Write, Restore may be called concurrently for the same
// record. The record of the last call remains.
func Restore[T any](dir *os.Root, name string, v T) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	tmp := fmt.Sprintf(".%s.%016x", name, rand.Uint64())
	f, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Close()); err == nil {
		err = rename(dir, tmp, name)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(tmp))
	}
	return nil
}

// Reserve reserves disk space for a later Write of the record, so that the Write succeeds on a full
// disk. Not every file system supports the reservation, and errors are ignored.
func Reserve(dir *os.Root, name string, size int64) {
	f, err := openTemporary(dir, temporary(name))
	if err != nil {
		return
	}
	_ = allocate(f, size)
	_ = f.Close()
}

func temporary(name string) string { return "." + name + ".tmp" }

// ReservedFile is the file for which a shim has reserved the space of its last record.
const ReservedFile = "." + ExitFile + ".tmp"
