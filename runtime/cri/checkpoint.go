// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"

	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

var _ runtime.Checkpointer = (*client)(nil)

// Checkpoint implements runtime.Checkpointer by CheckpointContainer. containerd needs version 2 and
// the program criu.
func (r *client) Checkpoint(ctx context.Context, id runtime.ContainerID, path string) error {
	if !goodID(id.ID) {
		return notFound("CheckpointContainer", id.ID)
	}
	_, err := do(ctx, noTimeout, "CheckpointContainer", r.cri.CheckpointContainer, &api.CheckpointContainerRequest{
		ContainerId: id.ID, Location: path, Timeout: secondsLeft(ctx),
	})
	return err
}
