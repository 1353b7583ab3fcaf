// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import (
	"fmt"

	"github.com/keelson-dev/keelson/runtime"
)

// newTerminal cannot be done here.
func newTerminal(runtime.Session) (*streams, error) {
	return nil, fmt.Errorf("a terminal: %w", runtime.ErrUnsupported)
}
