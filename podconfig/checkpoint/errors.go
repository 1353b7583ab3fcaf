// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
)

// What a FileError of Read wraps, beside the errors of the operating system.
var (
	// ErrForeign: the file is something else, not a checkpoint.
	ErrForeign = errors.New("it is no checkpoint")
	// ErrVersion: the checkpoint was written by another version of this package, in a format that this one cannot read.
	ErrVersion = errors.New("its format is of another version")
	// ErrTorn: the end is missing.
	ErrTorn = errors.New("it is torn: its end is missing")
	// ErrCorrupt: the content is not what was written.
	ErrCorrupt = errors.New("it is corrupt")
	// ErrTooLarge: the checkpoint would be, or is, larger than allowed.
	ErrTooLarge = errors.New("it is larger than allowed")
	// ErrExposed: others than the owner may write to the file, thus could have pods run on this node.
	ErrExposed = errors.New("others than its owner may write to it")
)

// FileError is what went wrong with a checkpoint. Its text is one line and holds nothing of the pods.
type FileError struct {
	// Path is that of the checkpoint.
	Path string
	// Op is what was tried: "read", "write", "sync", "replace".
	Op string
	// Err wraps one of this package's errors or the operating system's.
	Err error
}

// Error names the file, what was tried, and why it failed.
func (e *FileError) Error() string { return fmt.Sprintf("checkpoint %s: %s: %v", e.Path, e.Op, e.Err) }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// fileError strips the path from an error of the operating system, as a FileError names it.
func fileError(path, op string, err error) *FileError {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return &FileError{Path: path, Op: op, Err: err}
}
