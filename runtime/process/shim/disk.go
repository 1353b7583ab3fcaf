// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/keelson-dev/keelson/runtime/process/internal/launch"
)

// disk has the file operations of a log file.
type disk interface {
	stat(path string) (fs.FileInfo, error)
	// open opens for appending, and makes a missing file and missing folders.
	open(path string) (io.WriteCloser, fs.FileInfo, error)
	// names lists the names with the prefix in dir, without folders.
	names(dir, prefix string) ([]string, error)
	rename(from, to string) error
	// putBack renames, and never replaces another file.
	putBack(from, to string) error
	remove(path string) error
}

// realDisk uses package os.
type realDisk struct{}

func (realDisk) stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

func (realDisk) open(path string) (io.WriteCloser, fs.FileInfo, error) {
	f, err := launch.OpenLog(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // the error of Stat is returned
		return nil, nil, err
	}
	return f, info, nil
}

func (realDisk) names(dir, prefix string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for {
		some, err := f.ReadDir(64) // bounds the memory for large folders
		for _, e := range some {
			if !e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
				names = append(names, e.Name())
			}
		}
		if err == io.EOF {
			return names, nil
		}
		if err != nil {
			return names, err
		}
	}
}

func (realDisk) rename(from, to string) error { return os.Rename(from, to) }

func (realDisk) putBack(from, to string) error {
	err := os.Link(from, to)
	switch {
	case err == nil:
		return os.Remove(from)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	// A file system without hard links.
	if _, err := os.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return os.Rename(from, to)
}

func (realDisk) remove(path string) error { return os.Remove(path) }
