// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// prepare does little, because macOS has no subreapers. A process that escapes the container's
// process group by a double fork survives.
func prepare() error { return nil }

// keepStatement does nothing, because macOS has no memory that agents could read.
func keepStatement(record.Statement) (*os.File, error) { return nil, nil }

// hasEnded is not available here: false.
func hasEnded(int) bool { return false }

// killGroup kills the container's process group.
func (s *shim) killGroup() { _ = unix.Kill(-s.main, unix.SIGKILL) }

// mine returns the descendants of this process. An orphan does not become a child of this process.
func mine(all []proc.Info) []proc.Info { return proc.Descendants(all, os.Getpid()) }

// descriptors is the folder that lists this process's open descriptors.
const descriptors = "/dev/fd"
