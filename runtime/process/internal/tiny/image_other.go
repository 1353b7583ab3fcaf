// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !amd64

package tiny

import "errors"

// Without instructions for this processor there are no programs, and no addresses.
const (
	Arguments = iota
	Environment
	Failure
)

// Image is not available here.
func Image(*Program) ([]byte, error) { return nil, errors.ErrUnsupported }

// File is not available here.
func File(string, []byte) (fd int, err error) { return -1, errors.ErrUnsupported }

// InImage is not available here.
func InImage(*Program, Label) uintptr { return 0 }

// Raw is not available here.
func Raw([]Step) []byte { return nil }
