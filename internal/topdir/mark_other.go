// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package topdir

import (
	"errors"
	"os"
)

// Mark returns an error: there is no such hint here.
func Mark(*os.File) error { return errors.ErrUnsupported }
