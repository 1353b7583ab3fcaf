// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package statfs

import "errors"

func usage(string) (capacity, available uint64, err error) { return 0, 0, errors.ErrUnsupported }
