// SPDX-License-Identifier: Apache-2.0

// Package launch has the steps of a container's start that an agent does itself, where a shim can
// doze from the start, and a shim elsewhere.
package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/lookpath"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
)

// exitReserve is the disk space reserved for exit.json: a message of 4096 bytes, twice that for
// JSON escapes, and the other fields.
const exitReserve = 12 << 10

// Reserve reserves disk space for the end of a container.
func Reserve(dir *os.Root) { record.Reserve(dir, record.ExitFile, exitReserve) }

// ErrCannotRun is an error that is the container's own: its program cannot be executed. A next try
// would fail in the same way.
type ErrCannotRun struct{ Err error }

func (e ErrCannotRun) Error() string { return e.Err.Error() }

func (e ErrCannotRun) Unwrap() error { return e.Err }

// Command returns the command of a container, without files. The error is an ErrCannotRun.
func Command(spec *record.Spec) (c stage.Command, err error) {
	c = stage.Command{Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Walls: spec.Walls}
	if spec.Root != nil {
		// The container finds the program itself, in a root file system of its own.
		c.Programs = stage.Candidates(spec.Program(), spec.Env)
		return c, nil
	}
	info, err := os.Stat(spec.Dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", spec.Dir)
	}
	if err != nil {
		return c, ErrCannotRun{fmt.Errorf("working directory: %w", err)}
	}
	program, err := lookpath.Find(spec.Program(), spec.Dir, spec.Env)
	if err != nil {
		return c, ErrCannotRun{err}
	}
	c.Programs = []string{program}
	return c, nil
}

// Explain returns the error of a command that could not be executed. It is an ErrCannotRun, unless
// the cause is a machine that is short of memory, processes or files, or a program that is being
// written.
func Explain(spec *record.Spec, err error) error {
	if bare := (*fs.PathError)(nil); errors.As(err, &bare) {
		err = bare.Err
	}
	err = fmt.Errorf("command %q: %w", spec.Args[0], err)
	for _, passing := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETXTBSY} {
		if errors.Is(err, passing) {
			return err
		}
	}
	return ErrCannotRun{err}
}

// Failed records a start that has failed, when no process of the container is left: after an
// ErrCannotRun the container has exited, otherwise its state is created as before.
func Failed(dir *os.Root, cause error) error {
	var err error
	if _, own := errors.AsType[ErrCannotRun](cause); own {
		message := record.Clip(strings.ToValidUTF8(cause.Error(), "\uFFFD"), record.MaxMessage)
		err = record.WriteDurable(dir, record.ExitFile, record.Exit{Code: 128, Reason: "StartError", Message: message, FinishedAt: time.Now()})
	}
	if gone := dir.Remove(record.ProcessFile); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// OpenLog opens the log of a container for appending, and makes a missing file and missing folders.
// It fails for a fifo without a reader (O_NONBLOCK), and does not block.
func OpenLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, 0o640)
}
