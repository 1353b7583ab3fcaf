// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

const notUsed = "manifest is not used"

// FileError is passed to Config.Problem. It is a single line with the file and the reason.
type FileError struct {
	// Path is the file or folder with the problem.
	Path string
	// Err is the reason: a *manifest.Error, an error of the operating system, or a *DuplicateError.
	Err error
}

// Error begins with "path:line:column: " if the position is known, a form that editors can open.
func (e *FileError) Error() string {
	between := ": "
	if wrong, ok := errors.AsType[*manifest.Error](e.Err); ok && wrong.Position() != (manifest.Position{}) {
		between = ":"
	}
	return printable(e.Path) + between + e.Err.Error()
}

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }

// DuplicateError means that a file's pod is not used because another file holds a pod of the same
// name. The other pod ran earlier, or its path sorts first.
type DuplicateError struct {
	// Pod is namespace/name.
	Pod string
	// Winner is the path of the file whose pod is used.
	Winner string
}

func (e *DuplicateError) Error() string {
	return "pod " + e.Pod + " is already in " + printable(e.Winner)
}

// printable quotes a path with unprintable characters, so that it stays on a single line.
func printable(path string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(path) || strings.ContainsFunc(path, odd) {
		return strconv.Quote(path)
	}
	return path
}

// subject is the object of a problem: a path, or the watch on a path.
type subject struct {
	path  string
	watch bool
}

// reporter reports each problem once, and its end once.
type reporter struct {
	told    map[subject]string
	problem func(path string, err error)
	log     *zap.Logger
}

func (r *reporter) set(s subject, err error) {
	if err == nil {
		_, was := r.told[s]
		delete(r.told, s)
		// A path may have two problems. Report recovery only after both have ended.
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

// update replaces the set of problems with paths by current.
func (r *reporter) update(current map[string]error) {
	byPath := func(a, b subject) int { return strings.Compare(a.path, b.path) }
	for _, s := range sorted.Collect(maps.Keys(r.told), byPath) {
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
		r.log.Warn(notUsed, zap.String("path", path), zap.Error(err))
	default:
		r.log.Info("manifest recovered", zap.String("path", path), failurelog.Ends(notUsed))
	}
}
