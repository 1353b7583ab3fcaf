// SPDX-License-Identifier: Apache-2.0

package file

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
)

// FileError is what Config.Problem gets: one line that names the file and the reason.
type FileError struct {
	// Path is the file or folder the problem is with.
	Path string
	// Err is the reason: an error of package manifest, of the operating system, or *DuplicateError.
	Err error
}

func (e *FileError) Error() string { return printable(e.Path) + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }

// DuplicateError tells that a file's pod is not used because another file holds one of the same name: it did before, or
// its path sorts earlier.
type DuplicateError struct {
	// Pod is namespace/name.
	Pod string
	// Winner is the path of the file whose pod is used.
	Winner string
}

func (e *DuplicateError) Error() string {
	return "pod " + e.Pod + " is already in " + printable(e.Winner)
}

// printable quotes a path that would not stay on one line.
func printable(path string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(path) || strings.ContainsFunc(path, odd) {
		return strconv.Quote(path)
	}
	return path
}

// subject is what a problem is about: a path, or the watch on one.
type subject struct {
	path  string
	watch bool
}

// reporter tells each problem once, and once that it is over.
type reporter struct {
	told    map[subject]string
	problem func(path string, err error)
	log     *zap.Logger
}

func (r *reporter) set(s subject, err error) {
	if err == nil {
		_, was := r.told[s]
		delete(r.told, s)
		// The other problem that a path may have is not over by that.
		if _, other := r.told[subject{path: s.path, watch: !s.watch}]; was && !other {
			r.tell(s.path, nil)
		}
		return
	}
	fileErr := &FileError{Path: s.path, Err: err}
	if text := fileErr.Error(); r.told[s] != text {
		r.told[s] = text
		r.tell(s.path, fileErr)
	}
}

// update makes current the set of all problems with paths.
func (r *reporter) update(current map[string]error) {
	byPath := func(a, b subject) int { return strings.Compare(a.path, b.path) }
	for _, s := range slices.SortedFunc(maps.Keys(r.told), byPath) {
		if _, still := current[s.path]; !still && !s.watch {
			r.set(s, nil)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(current)) {
		r.set(subject{path: path}, current[path])
	}
}

func (r *reporter) tell(path string, err error) {
	switch {
	case r.problem != nil:
		r.problem(path, err)
	case err != nil:
		r.log.Warn("manifest is not used", zap.String("path", path), zap.Error(err))
	default:
		r.log.Info("manifest recovered", zap.String("path", path))
	}
}
