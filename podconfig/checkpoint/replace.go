// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"os"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// replace replaces the content of a file atomically, also across a power failure. After an error
// the old content remains, unless only the last sync failed, and no temporary file is left.
func replace(path string, data []byte) error {
	err := atomicfile.WritePath(path, data)
	if err == nil {
		return nil
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return fileError(path, "replace", link.Err)
	}
	return fileError(path, "write", err)
}
