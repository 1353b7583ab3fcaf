// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces files so that a reader, also after a power cut, finds the old or the new content. It also
// reads files of untrusted size.
//
// The order of a replacement is: the new content goes into a temporary file, the temporary file to the disk, the name
// to the temporary file, the name to the disk. Each file has one temporary name, so a killed process leaves at most one
// temporary file. The next replacement removes the file.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/keelson-dev/keelson/internal/tree"
)

// Temporary is the suffix of the temporary file with the next content.
const Temporary = ".tmp"

// Write replaces the content of the file name in dir by data, readable only by its owner. After an error the file has
// the old content, unless syncing dir failed. No temporary file is left. A file, a link or an empty folder in the place
// of the temporary file is removed. A full folder there, or in the place of the file, is an error: see Clear.
func Write(dir *os.Root, name string, data []byte) error {
	temporary := name + Temporary
	if err := dir.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := Create(dir, temporary, data, true)
	if err == nil {
		err = dir.Rename(temporary, name)
	}
	if err != nil {
		_ = dir.Remove(temporary) // on a full disk, every byte counts
		return err
	}
	return syncDir(dir, filepath.Dir(name))
}

// WritePath is Write for the file at path. The folder of the file must exist.
func WritePath(path string, data []byte) error {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return Write(dir, filepath.Base(path), data)
}

// Create creates the file name in dir, which must not exist. With synced, data is on the disk when Create returns. The
// name is not synced: after a power cut the file can be missing. After a power cut during the call, or without synced,
// the content can be truncated.
func Create(dir *os.Root, name string, data []byte, synced bool) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && synced {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		_ = dir.Remove(name)
		return err
	}
	return nil
}

// Remove removes the file name in dir, if present. A folder in its place is removed with its content; a mount in the
// folder stays, and is an error.
func Remove(dir *os.Root, name string) error {
	err := dir.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if info, failed := dir.Lstat(name); failed != nil || !info.IsDir() {
		return err
	}
	return tree.RemoveAll(dir, filepath.ToSlash(name))
}

// Clear removes folders, with their content, in the place of the file name in dir and of its temporary file. Use Clear
// only in folders without files of other programs. A mount in such a folder stays, and is an error.
func Clear(dir *os.Root, name string) error {
	for _, name := range []string{name, name + Temporary} {
		if info, err := dir.Lstat(name); err != nil || !info.IsDir() {
			continue
		}
		if err := Remove(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// SyncDir puts the names in the folder at path on the disk.
func SyncDir(path string) error {
	dir, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return syncDir(dir, ".")
}

// syncDir puts the names in a folder on the disk. File systems without support report EINVAL or ENOTSUP.
func syncDir(dir *os.Root, name string) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Errors of Read.
var (
	// ErrNotRegular means that the path is a folder, a dangling link, a device or a pipe.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge means that the file exceeds the limit.
	ErrTooLarge = errors.New("too large")
)

// OpenRegular opens the file name in dir for reading, and returns its FileInfo. OpenRegular does not wait for the
// writer of a pipe. The error is fs.ErrNotExist, ErrNotRegular or an error of the system.
func OpenRegular(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Read returns the content of the file name in dir, at most limit bytes. Read does not wait for the writer of a pipe.
// The error is fs.ErrNotExist, ErrNotRegular, ErrTooLarge or an error of the system.
func Read(dir *os.Root, name string, limit int64) ([]byte, error) {
	f, _, err := OpenRegular(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)}
	}
	return data, nil
}

// ReadPath is Read for the file at path.
func ReadPath(path string, limit int64) ([]byte, error) {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return Read(dir, filepath.Base(path), limit)
}
