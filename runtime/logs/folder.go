// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// folder has the file operations of a rotation in a log's folder. Names have no slash.
type folder interface {
	names() ([]string, error)
	// stat does not follow links.
	stat(name string) (fs.FileInfo, error)
	rename(from, to string) error
	// putBack renames, but never replaces another file.
	putBack(from, to string) error
	remove(name string) error
	open(name string) (io.ReadCloser, error)
	create(name string, mode fs.FileMode) (newFile, error)
	setTime(name string, t time.Time) error
	io.Closer
}

// newFile is a file being written.
type newFile interface {
	io.WriteCloser
	Sync() error
}

// diskFolder is a folder on the disk. Links do not lead out of the folder.
type diskFolder struct{ root *os.Root }

func openFolder(dir string) (folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return diskFolder{root}, nil
}

func (d diskFolder) names() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (d diskFolder) stat(name string) (fs.FileInfo, error) { return d.root.Lstat(name) }

func (d diskFolder) rename(from, to string) error { return d.root.Rename(from, to) }

func (d diskFolder) putBack(from, to string) error {
	err := d.root.Link(from, to)
	switch {
	case err == nil:
		return d.root.Remove(from)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	// A file system without hard links.
	if _, err := d.root.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return d.root.Rename(from, to)
}

func (d diskFolder) remove(name string) error { return d.root.Remove(name) }

func (d diskFolder) open(name string) (io.ReadCloser, error) { return d.root.Open(name) }

func (d diskFolder) create(name string, mode fs.FileMode) (newFile, error) {
	return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
}

func (d diskFolder) setTime(name string, t time.Time) error { return d.root.Chtimes(name, t, t) }

func (d diskFolder) Close() error { return d.root.Close() }
