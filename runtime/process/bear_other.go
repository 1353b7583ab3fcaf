// SPDX-License-Identifier: Apache-2.0

//go:build !linux || noseccomp

package process

import (
	"errors"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// bear is not available here.
func (r *Runtime) bear(*instance, *record.Lock, *record.Spec) error { return errors.ErrUnsupported }
