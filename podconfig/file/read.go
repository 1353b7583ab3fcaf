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

// listing is what there is to read: paths in sort order, or why nobody knows.
type listing struct {
	paths   []string
	names   []string // of everything in the folder, as the system gave them
	missing bool     // there is neither a folder nor a file
	adrift  bool     // missing, and so is the folder it would be in
	err     error

	stamp stamp // of the folder, before its names were read; zero if the folder had just changed
}

// holds tells whether a folder certainly has the same names as when it was listed, without listing it. It is what the
// file system says, which some do late; a look that must not miss anything lists.
func (l listing) holds(path string) bool { return l.stamp != stamp{} && hasStamp(path, l.stamp) }

// list finds the manifests at path. An error never reads as "nothing there". If before is a listing of the same names,
// its paths are used.
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

// namesIn returns the names in a folder, never some of them with an error.
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

// isManifest tells whether a folder's entry is to be read. Hidden files are not, as in the kubelet, nor is what editors
// leave beside the file that they write: a copy that runs instead of the manifest is never what was meant.
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

// writer tells whether somebody has a file open for writing.
type writer uint8

const (
	writerUnknown writer = iota
	writerAbsent
	writerPresent
)

// content is a file as it was read.
type content struct {
	data   []byte
	stamp  stamp
	writer writer
	torn   bool // it changed while it was read
}

// errVanished tells that the file's name is gone.
var errVanished = errors.New("file is gone")

// examine stats what the path leads to, without opening anything but a regular file of a permitted size.
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

// read reads a file that was examined. What it opens may be another one by now, a FIFO even: opening does not block,
// and the file is examined again once it is open.
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
	data, err := io.ReadAll(io.LimitReader(f, limit))
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

// reason strips the path from an error, as problems name it themselves.
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
