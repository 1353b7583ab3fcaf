// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
)

// keepNetwork is not available here.
func keepNetwork() error { return errors.ErrUnsupported }

// prepare does little, because macOS has no subreapers. A process that escapes the container's
// process group by a double fork survives.
func prepare() error { return nil }

// keep does nothing, because macOS has no memory that agents could read.
func keep(string, any) (*os.File, error) { return nil, nil }

// leastPatience is the time after which doze is called, for nothing.
const leastPatience = time.Hour

// doze is not available here.
func (*shim) doze() (again bool) { return false }

// wake returns nil, because no shim dozes here.
func wake() (*shim, error) { return nil, nil }

// hasEnded is not available here: false.
func hasEnded(int) bool { return false }

// killGroup kills the container's process group.
func (s *shim) killGroup() { _ = unix.Kill(-s.main, unix.SIGKILL) }

// mine returns the descendants of this process. An orphan does not become a child of this process.
func mine(all []proc.Info) []proc.Info { return proc.Descendants(all, os.Getpid()) }

// descriptors is the folder that lists this process's open descriptors.
const descriptors = "/dev/fd"
