// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// listing is the result of listing a path: the manifest paths in sort order, or an error.
type listing struct {
	paths   []string
	names   []string // all names in the folder, in the order of the system
	missing bool     // neither a folder nor a file exists
	adrift  bool     // the path and its parent folder are missing
	err     error

	stamp stamp // of the folder, before its names were read; zero if the folder had just changed
}

// holds reports whether a folder certainly has the names of the listing, without listing it again.
// The file system may update the folder's times late, so Scan always lists.
func (l listing) holds(path string) bool { return l.stamp != stamp{} && hasStamp(path, l.stamp) }

// list finds the manifests at path. An error never counts as an empty folder. If before has the
// same names, its paths are reused.
func list(path string, before listing) listing {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, parentErr := os.Stat(filepath.Dir(path))
		return listing{missing: true, adrift: parentErr != nil}
	case err != nil:
		return listing{err: reason(err)}
	case info.Mode().IsRegular():
		return listing{paths: []string{path}}
	case !info.IsDir():
		return listing{err: notRegular(info.Mode())}
	}
	names, err := namesIn(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return listing{missing: true}
	case err != nil:
		return listing{err: reason(err)}
	}
	l := listing{names: names}
	if s := stampOf(info); time.Since(s.changed()) > trustAfter {
		l.stamp = s
	}
	if before.names != nil && slices.Equal(names, before.names) {
		l.paths = before.paths
	} else {
		l.paths = manifestsAmong(names, path)
	}
	return l
}

// namesIn returns all names in a folder, or an error without names.
func namesIn(path string) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	return names, nil
}

func manifestsAmong(names []string, folder string) []string {
	paths := make([]string, 0, len(names))
	for _, name := range names {
		if isManifest(name) {
			paths = append(paths, filepath.Join(folder, name))
		}
	}
	slices.Sort(paths)
	return paths
}

// isManifest reports whether to read an entry of a folder. Hidden files are skipped, as in the
// kubelet. Editors' backup files are skipped, too: a backup copy must never run in place of the
// manifest.
func isManifest(name string) bool {
	switch {
	case strings.HasPrefix(name, "."), strings.HasSuffix(name, "~"), strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#"):
		return false
	}
	switch filepath.Ext(name) {
	case ".bak", ".orig", ".rej", ".swp", ".swx", ".tmp":
		return false
	}
	return true
}

// writer reports whether a process has a file open for writing.
type writer uint8

const (
	writerUnknown writer = iota
	writerAbsent
	writerPresent
)

// content is the content of a file with its stamp.
type content struct {
	data   []byte
	stamp  stamp
	writer writer
	torn   bool // the file changed during the read
}

// errWaits means that a read of the file would block for content.
var errWaits = errors.New("not a file with content: reading it waits, as reading a device does")

// errVanished means that the file no longer exists.
var errVanished = errors.New("file is gone")

// fileSystem is the interface of a Source to the disk. Calls may never return.
type fileSystem interface {
	// list is the function list.
	list(path string, before listing) listing
	// holds is listing.holds.
	holds(path string, l listing) bool
	// look reads a file of less than limit bytes. It skips the read if known is not zero and the
	// file certainly has the stamp known.
	look(path string, known stamp, limit int64) look
}

// look is the result of looking at a file: unchanged, its content, or an error.
type look struct {
	unchanged bool
	content   content
	err       error
}

// system is the operating system's file system.
type system struct{}

func (system) list(path string, before listing) listing { return list(path, before) }

func (system) holds(path string, l listing) bool { return l.holds(path) }

func (system) look(path string, known stamp, limit int64) look {
	if known != (stamp{}) && hasStamp(path, known) {
		return look{unchanged: true}
	}
	if err := examine(path, limit); err != nil {
		return look{err: err}
	}
	c, err := read(path, limit)
	return look{content: c, err: err}
}

// examine checks with stat that path leads to a regular file of a permitted size, without opening
// it.
func examine(path string, limit int64) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, linkErr := os.Lstat(path); linkErr == nil {
			return errors.New("symbolic link to a file that does not exist")
		}
		return errVanished
	}
	if err != nil {
		return reason(err)
	}
	return permitted(info, limit)
}

func permitted(info fs.FileInfo, limit int64) error {
	switch {
	case !info.Mode().IsRegular():
		return notRegular(info.Mode())
	case info.Size() >= limit:
		return manifest.TooLarge(limit)
	}
	return nil
}

// read reads an examined file. The path may lead to a different file by now, even a FIFO. So read
// opens without blocking, and examines the open file again.
func read(path string, limit int64) (content, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return content{}, errVanished
	}
	if err != nil {
		return content{}, reason(err)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return content{}, reason(err)
	}
	if err := permitted(before, limit); err != nil {
		return content{}, err
	}
	// Files that block for content, such as /proc/kmsg, support a deadline. For other files the
	// call fails, and no deadline is needed.
	_ = f.SetReadDeadline(time.Now().Add(patience / 2))
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return content{}, errWaits
	}
	if err != nil {
		return content{}, reason(err)
	}
	writing := openForWriting(f)
	after, err := f.Stat()
	if err != nil {
		return content{}, reason(err)
	}
	c := content{data: data, stamp: stampOf(before), writer: writing}
	c.torn = c.stamp != stampOf(after)
	return c, nil
}

// reason strips the path from an error, because problems contain the path already.
func reason(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

func notRegular(mode fs.FileMode) error {
	kind := "special file"
	switch {
	case mode.IsDir():
		kind = "directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "socket"
	case mode&fs.ModeDevice != 0:
		kind = "device"
	}
	return fmt.Errorf("not a regular file but a %s", kind)
}
