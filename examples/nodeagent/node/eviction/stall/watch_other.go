// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package stall

import (
	"context"
	"errors"
)

// Memory is the file of stalls of the whole machine for memory.
const Memory = "/proc/pressure/memory"

// Watch returns an error on this system.
func Watch(context.Context, string) (<-chan struct{}, error) {
	return nil, errors.ErrUnsupported
}
