// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !amd64 || noseccomp

package stage

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Holder is a shim to be.
type Holder struct {
	Args, Env []string
	Dir       string
	Files     [record.BornFDs]*os.File
	Stop      unix.Signal
}

// Birth is a start under way.
type Birth struct{ Holder *os.Process }

// Hold is not available here.
func Hold(Command, Holder) (*Birth, error) { return nil, errors.ErrUnsupported }

// Await is not called here.
func (*Birth) Await(time.Time) (int, error) { return 0, errors.ErrUnsupported }

// Begin is not called here.
func (*Birth) Begin() error { return errors.ErrUnsupported }

// Close is not called here.
func (*Birth) Close() {}
