// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	maxPath    = 4096
	maxElement = 255
	maxShown   = 64
)

// The reasons for refusing a path. A PathError wraps one of them.
var (
	ErrEmptyPath = errors.New("is empty")
	ErrAbsolute  = errors.New("is absolute")
	ErrClimbs    = errors.New(`has a ".."`)
	ErrReserved  = errors.New(`begins with ".."`)
	ErrTooLong   = errors.New("is too long")
	ErrNUL       = errors.New("has a NUL byte")
	ErrNoFile    = errors.New("names a folder")
	ErrInTheWay  = errors.New("is a file and also a folder of another path")
)

// PathError reports a refused path of a payload and the reason.
type PathError struct {
	Path string
	Err  error
}

func (e *PathError) Error() string { return "path " + Shown(e.Path) + " " + e.Err.Error() }

func (e *PathError) Unwrap() error { return e.Err }

// Shown quotes a key or path for an error; a very long text is cut.
func Shown(s string) string {
	if len(s) > maxShown {
		return fmt.Sprintf("%q… (%d bytes)", s[:maxShown], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// File is one file of a Payload.
type File struct {
	// Data is not copied and not changed.
	Data []byte
	// Mode are the permissions; umask does not apply.
	Mode fs.FileMode
	// User owns the file. Defaults to the agent's user.
	User *int64
}

// Payload maps slash-separated paths below the volume to files.
type Payload map[string]File

// Add sets the file at a path, in its shortest form. A file already at the path is replaced: a
// later source wins.
func (p Payload) Add(at string, f File) error {
	clean, err := Clean(at)
	if err != nil {
		return err
	}
	p[clean] = f
	return nil
}

// Clean returns the shortest form of a path, or a *PathError if the path leads out of the volume or
// is not a file name. The rules are the kubelet's.
func Clean(p string) (string, error) {
	refuse := func(why error) (string, error) { return "", &PathError{p, why} }
	switch {
	case p == "":
		return refuse(ErrEmptyPath)
	case len(p) > maxPath:
		return refuse(ErrTooLong)
	case strings.HasPrefix(p, "/"):
		return refuse(ErrAbsolute)
	case strings.IndexByte(p, 0) >= 0:
		return refuse(ErrNUL)
	}
	for element := range strings.SplitSeq(p, "/") {
		if element == ".." {
			return refuse(ErrClimbs)
		}
		if len(element) > maxElement {
			return refuse(ErrTooLong)
		}
	}
	clean := path.Clean(p)
	if clean == "." {
		return refuse(ErrNoFile)
	}
	if strings.HasPrefix(clean, "..") {
		return refuse(ErrReserved)
	}
	return clean, nil
}

// check refuses a payload if a path is not clean, or is both a file and a folder.
func (p Payload) check() error {
	for _, at := range slices.Sorted(maps.Keys(p)) {
		clean, err := Clean(at)
		if err != nil {
			return err
		}
		if clean != at {
			return fmt.Errorf("path %s is not in its shortest form", Shown(at))
		}
		for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
			if _, ok := p[dir]; ok {
				return &PathError{dir, ErrInTheWay}
			}
		}
	}
	return nil
}

// tops returns the first elements of all paths.
func (p Payload) tops() map[string]bool {
	out := make(map[string]bool, len(p))
	for at := range p {
		first, _, _ := strings.Cut(at, "/")
		out[first] = true
	}
	return out
}

// dirs returns the folders of all files, parents first.
func (p Payload) dirs() []string {
	seen := map[string]bool{}
	for at := range p {
		for dir := path.Dir(at); dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
