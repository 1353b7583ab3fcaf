// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

func (s *server) CheckpointContainer(context.Context, *api.CheckpointContainerRequest) (*api.CheckpointContainerResponse, error) {
	return &api.CheckpointContainerResponse{}, nil
}

func TestCheckpoint(t *testing.T) {
	s := newServer(t)
	r := s.dial(t)
	var asked *api.CheckpointContainerRequest
	s.asks(func(request any) {
		if q, ok := request.(*api.CheckpointContainerRequest); ok {
			asked = q
		}
	})
	checkpointer := r.(runtime.Checkpointer)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	require.NoError(t, checkpointer.Checkpoint(ctx, runtime.ContainerID{ID: "c1"}, "/checkpoints/c1.tar"))
	require.Equal(t, []any{"c1", "/checkpoints/c1.tar", int64(3600)}, []any{asked.ContainerId, asked.Location, asked.Timeout})
	require.NoError(t, checkpointer.Checkpoint(t.Context(), runtime.ContainerID{ID: "c1"}, "/c"))
	require.Zero(t, asked.Timeout)

	s.fail("CheckpointContainer", codes.Unimplemented, "unknown method CheckpointContainer")
	require.ErrorIs(t, checkpointer.Checkpoint(t.Context(), runtime.ContainerID{ID: "c1"}, "/c"), runtime.ErrUnsupported)
	require.ErrorIs(t, checkpointer.Checkpoint(t.Context(), runtime.ContainerID{ID: "../c1"}, "/c"), runtime.ErrNotFound)
}
