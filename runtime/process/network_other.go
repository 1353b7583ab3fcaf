// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import (
	"errors"
	"syscall"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
)

// moveInside is not called here, because no pod has a network namespace.
func (*Runtime) moveInside(proc.Ref, string, syscall.RawConn) error { return errors.ErrUnsupported }
