// SPDX-License-Identifier: Apache-2.0

package runtime

import "context"

// Checkpointer is an optional ability of a Runtime: to write the state of a running container to a
// file, for forensics (KEP-2008).
type Checkpointer interface {
	// Checkpoint writes the state of a running container to a new file at an absolute path. The
	// container goes on running. The file contains the memory of the container, so only
	// administrators should be able to read it. After an error the file may exist in part. The
	// error wraps ErrNotFound if there is no such container, and ErrUnsupported if the runtime
	// cannot make checkpoints. The runtime gives up at the deadline of ctx.
	Checkpoint(ctx context.Context, id ContainerID, path string) error
}
