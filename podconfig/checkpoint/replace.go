// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// temporary is where the next content of a file is written. There is but one such name, so that a process that was
// killed leaves at most one behind, and the next one takes it over.
func temporary(path string) string { return path + ".tmp" }

// replace gives a file new content so that at any moment, and after a power cut at any moment, the file has the old or
// the new: the new content is on the disk before it gets the name, and the name is on the disk before replace returns.
// After an error the old content is there, unless the error is that of the last sync, and nothing else is left behind.
func replace(path string, data []byte) error {
	temp := temporary(path)
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(path, "write", err)
	}
	if err := write(temp, data); err != nil {
		_ = os.Remove(temp) // on a full disk, every byte counts
		return fileError(path, "write", err)
	}
	if err := os.Rename(temp, path); err != nil {
		_ = os.Remove(temp)
		if linkErr, ok := errors.AsType[*os.LinkError](err); ok {
			err = linkErr.Err
		}
		return fileError(path, "replace", err)
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return fileError(path, "sync", err)
	}
	return nil
}

// write makes a file that nobody else may read, for pods hold secrets, with data that is on the disk. O_EXCL follows no
// link that somebody may have put there.
func write(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncFolder puts a folder's names on the disk. Not every file system can, and those that cannot say so.
func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}
