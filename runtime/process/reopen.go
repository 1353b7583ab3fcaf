// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/runtime"
)

// ReopenLog implements logs.LogReopener, for callers that rotate logs themselves and set a negative
// Options.MaxLogSize. ReopenLog only checks that the container exists. At the next output the shim
// notices that the file was renamed, and continues with a new file or with the file in its place.
func (r *Runtime) ReopenLog(ctx context.Context, id runtime.ContainerID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, in, err := r.openContainer(id)
	if err != nil {
		return fmt.Errorf("container %s: %w", id, err)
	}
	in.close()
	s.close()
	return nil
}
