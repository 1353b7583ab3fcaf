// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
	"github.com/keelson-dev/keelson/runtime/process/internal/walls"
)

// openUsers returns a user namespace that maps IDs.
func openUsers(ids record.IDs) (*os.File, error) { return stage.OpenUsers(ids) }

// subordinateIDs returns the subordinate IDs of this process's user, and a user namespace that maps them, or the reason
// why containers cannot have them.
func subordinateIDs() (*record.IDs, *os.File, error) {
	ids, err := walls.SubordinateIDs()
	if err != nil {
		return nil, nil, err
	}
	users, err := openUsers(ids)
	return &ids, users, err
}
