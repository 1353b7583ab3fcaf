// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxSize bounds what is read of a record. A pod's spec is at most 1.5 MiB.
const maxSize = 8 << 20

// A CorruptError says that a record is there but cannot be read: torn by a
// crash of the machine, or changed by somebody else. It never quotes content.
type CorruptError struct {
	Path string
	Err  error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("record %s: %v", e.Path, e.Err) }

func (e *CorruptError) Unwrap() error { return e.Err }

// Read reads a record. An error is fs.ErrNotExist, or else a *CorruptError.
func Read[T any](dir *os.Root, name string) (T, error) {
	var v T
	// O_NONBLOCK: a fifo in the place of a record must not block anybody.
	f, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	corrupt := func(err error) (T, error) {
		var zero T
		return zero, &CorruptError{Path: filepath.Join(dir.Name(), name), Err: err}
	}
	if err != nil {
		return corrupt(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return corrupt(err)
	case !info.Mode().IsRegular():
		return corrupt(errors.New("not a regular file"))
	case info.Size() > maxSize:
		return corrupt(fmt.Errorf("%d bytes, more than %d", info.Size(), maxSize))
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		return corrupt(err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return corrupt(err)
	}
	return v, nil
}

// Write writes a record, readable by its owner only. Readers see the old one or
// the new one. After a crash of the machine the file may be missing or empty.
func Write[T any](dir *os.Root, name string, v T) error {
	return write(dir, name, v, nil)
}

// WriteDurable is Write for what must also survive a crash of the machine.
func WriteDurable[T any](dir *os.Root, name string, v T) error {
	return write(dir, name, v, (*os.File).Sync)
}

// write writes to a temporary file, settles it, and renames it into place.
func write[T any](dir *os.Root, name string, v T, settle func(*os.File) error) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	tmp := temporary(name)
	// No O_TRUNC: Reserve may have set space aside in this file.
	f, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE, 0o600)
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
	if err := dir.Rename(tmp, name); err != nil {
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

// Reserve sets disk space aside for a record that will be written later, so
// that a full disk cannot lose it. Best effort: not every filesystem can.
func Reserve(dir *os.Root, name string, size int64) {
	f, err := dir.OpenFile(temporary(name), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	_ = allocate(f, size)
	_ = f.Close()
}

func temporary(name string) string { return "." + name + ".tmp" }
