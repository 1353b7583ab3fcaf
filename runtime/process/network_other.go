// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import (
	"errors"
	"os"
	"syscall"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// moveInside is not called here, because no pod has a network namespace.
func (*Runtime) moveInside(proc.Ref, string, syscall.RawConn) error { return errors.ErrUnsupported }

// subordinateIDs is not called here, because containers have no namespaces.
func subordinateIDs() (*record.IDs, *os.File, error) { return nil, nil, errors.ErrUnsupported }

// openUsers is not called here either.
func openUsers(record.IDs) (*os.File, error) { return nil, errors.ErrUnsupported }
