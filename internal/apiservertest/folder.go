// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

const folderPrefix = "keelson-api-"

// folder is where the files of one server are. It is locked for as long as its
// process lives; the kernel unlocks it when that dies.
type folder struct {
	dir  string
	lock *os.File
}

// makeFolder makes a folder below parent, after removing those there that
// processes which died have left behind.
func makeFolder(parent string) (folder, error) {
	sweep(parent)
	dir, err := os.MkdirTemp(parent, folderPrefix)
	if err != nil {
		return folder{}, err
	}
	f := folder{dir: dir}
	// The lock appears locked: one that is not is a dead process's.
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

// lockFile opens and locks a file, or says that another has it locked.
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

// sweep removes the folders below parent whose processes have died. What cannot
// be removed, because another user owns it, stays.
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

// remove removes the folder and all in it, the lock at last. The zero folder is
// none.
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
