// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package topdir

import (
	"errors"
	"os"
)

// Mark returns an error, because the flag exists only on Linux.
func Mark(*os.File) error { return errors.ErrUnsupported }
