// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

const folderPrefix = "keelson-api-"

// folder is the folder with the files of one server. The folder is locked while its process lives;
// the kernel unlocks the folder when the process dies.
type folder struct {
	dir  string
	lock *os.File
}

// makeFolder makes a folder below parent, after removing the folders of dead processes.
func makeFolder(parent string) (folder, error) {
	sweep(parent)
	dir, err := os.MkdirTemp(parent, folderPrefix)
	if err != nil {
		return folder{}, err
	}
	f := folder{dir: dir}
	// The lock file gets its final name only after being locked, so an unlocked file belongs to a
	// dead process.
	fresh := filepath.Join(dir, "new")
	f.lock, err = lockFile(fresh, os.O_CREATE)
	if err == nil {
		err = os.Rename(fresh, f.file("lock"))
	}
	if err != nil {
		return folder{}, errors.Join(err, f.remove())
	}
	return f, nil
}

// lockFile opens and locks a file. A lock held by another process is an error.
func lockFile(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes the folders below parent whose processes have died. Folders of other users stay.
func sweep(parent string) {
	locks, err := filepath.Glob(filepath.Join(parent, folderPrefix+"*", "lock"))
	if err != nil {
		return // a parent with a bracket in its name is not swept
	}
	for _, name := range locks {
		if lock, err := lockFile(name, 0); err == nil {
			_ = folder{filepath.Dir(name), lock}.remove()
		}
	}
}

// file is the path of a file in the folder.
func (f folder) file(name string) string { return filepath.Join(f.dir, name) }

// remove removes the folder with its content, and then releases the lock. The zero folder has
// nothing to remove.
func (f folder) remove() error {
	if f.dir == "" {
		return nil
	}
	err := os.RemoveAll(f.dir)
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	return err
}
