// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package doze

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Exec is not available here.
func Exec(string, []string, []int, *End, ...unix.Signal) error { return errors.ErrUnsupported }
