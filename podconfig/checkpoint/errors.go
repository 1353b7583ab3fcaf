// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Errors wrapped by a FileError of Read, besides errors of the operating system.
var (
	// ErrForeign: the file is not a checkpoint.
	ErrForeign = errors.New("it is no checkpoint")
	// ErrVersion: the checkpoint has the format of another version of this package.
	ErrVersion = errors.New("its format is of another version")
	// ErrTorn: the end is missing.
	ErrTorn = errors.New("it is torn: its end is missing")
	// ErrCorrupt: the content does not match its checksum, or is not valid.
	ErrCorrupt = errors.New("it is corrupt")
	// ErrTooLarge: the checkpoint exceeds the size limit.
	ErrTooLarge = errors.New("it is larger than allowed")
	// ErrExposed: users other than the owner may write to the file, and could thus run pods on the
	// node.
	ErrExposed = errors.New("users other than the owner may write to the file")
)

// FileError is an error of a checkpoint operation. Its text is a single line without data of pods.
type FileError struct {
	// Path is the path of the checkpoint.
	Path string
	// Op is the operation: "read", "write", "replace".
	Op string
	// Err wraps one of this package's errors or the operating system's.
	Err error
}

// Error returns the path, the operation and the reason.
func (e *FileError) Error() string { return fmt.Sprintf("checkpoint %s: %s: %v", e.Path, e.Op, e.Err) }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// fileError strips the path from an error of the operating system, because FileError contains the
// path. An error of the rename has the operation "replace".
func fileError(path, op string, err error) *FileError {
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		op, err = "replace", link.Err
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return &FileError{Path: path, Op: op, Err: err}
}
