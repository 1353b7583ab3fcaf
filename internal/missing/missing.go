// SPDX-License-Identifier: Apache-2.0

// Package missing treats a missing file as success, for removals and for reads of optional files.
package missing

import (
	"errors"
	"io/fs"
)

// Ignore returns nil if err says that a file does not exist. It returns other errors unchanged.
func Ignore(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
