// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/runtime"
)

// ReopenLog lets somebody else rotate a container's log. There is nothing to be
// done but to say whether there is such a container: with the next output the
// shim finds that the file was renamed, and begins a new one (or goes on with
// one that was put there). It implements logs.LogReopener. With it goes a
// negative Options.MaxLogSize.
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
