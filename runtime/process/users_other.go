// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import (
	"errors"
	"os"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// subordinateIDs is not called here, because containers have no namespaces.
func subordinateIDs() (*record.IDs, *os.File, error) { return nil, nil, errors.ErrUnsupported }

// openUsers is not called here either.
func openUsers(record.IDs) (*os.File, error) { return nil, errors.ErrUnsupported }
