// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/keelson-dev/keelson/internal/tree"
)

// folder are the disk operations of Write. Each call is a step, and the process may be killed after
// any step. Names are slash-separated and below the folder of the volume. No operation follows a
// link out of the folder.
type folder interface {
	readlink(name string) (string, error)
	lstat(name string) (fs.FileInfo, error)
	readDir(name string) ([]fs.DirEntry, error)
	// read returns the content of a regular file. Any other file, or a file of more than most
	// bytes, is an error.
	read(name string, most int) ([]byte, error)
	mkdir(name string, mode fs.FileMode) error
	// create creates a new file.
	create(name string) (file, error)
	chmod(name string, mode fs.FileMode) error
	// sub opens a folder in this folder. The caller closes it.
	sub(name string) (folder, error)
	close() error
	symlink(target, name string) error
	rename(from, to string) error
	remove(name string) error
	removeAll(name string) error
}

// file is a new file being written.
type file interface {
	io.WriteCloser
	Chown(uid, gid int) error
	Chmod(fs.FileMode) error
	Sync() error
}

// disk is the folder of a volume.
type disk struct{ root *os.Root }

func (d disk) readlink(name string) (string, error)   { return d.root.Readlink(name) }
func (d disk) lstat(name string) (fs.FileInfo, error) { return d.root.Lstat(name) }

func (d disk) readDir(name string) ([]fs.DirEntry, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

func (d disk) read(name string, most int) ([]byte, error) {
	// A container may have created a pipe at this path: do not wait for a writer.
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > int64(most) {
		return nil, errors.New("differs from the written content")
	}
	return io.ReadAll(io.LimitReader(f, int64(most)+1))
}

func (d disk) mkdir(name string, mode fs.FileMode) error { return d.root.Mkdir(name, mode) }

func (d disk) create(name string) (file, error) {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d disk) chmod(name string, mode fs.FileMode) error { return d.root.Chmod(name, mode) }
func (d disk) close() error                              { return d.root.Close() }

func (d disk) sub(name string) (folder, error) {
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return disk{root}, nil
}

func (d disk) symlink(target, name string) error { return d.root.Symlink(target, name) }
func (d disk) rename(from, to string) error      { return d.root.Rename(from, to) }
func (d disk) remove(name string) error          { return d.root.Remove(name) }

func (d disk) removeAll(name string) error {
	if err := tree.RemoveAll(d.root, name); err != nil {
		return fmt.Errorf("old version: %w", err)
	}
	return nil
}
