// SPDX-License-Identifier: Apache-2.0

//go:build !linux || noseccomp

package walls

import "errors"

var errNoFilters = errors.New("this build has no system call filters")

// DefaultFilter is not available in this build.
func DefaultFilter([]string) ([]byte, error) { return nil, errNoFilters }

// LocalFilter is not available in this build.
func LocalFilter([]byte, []string) ([]byte, error) { return nil, errNoFilters }
