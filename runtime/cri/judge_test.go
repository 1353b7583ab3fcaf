// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/runtime"

	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A container without an answer does not hide other containers from a list, whether the call hangs
// or the runtime has lost the status.
func TestListDoesNotWaitForOneContainer(t *testing.T) {
	for name, fault := range map[string]func(ctx context.Context) error{
		"hangs": func(ctx context.Context) error { <-ctx.Done(); return status.FromContextError(ctx.Err()).Err() },
		"fails": func(context.Context) error { return status.Error(codes.Internal, "its record cannot be read") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			rt := s.dial(t).(*client)
			_, id := made(t, rt, "u1")
			made(t, rt, "u2")
			s.edit(id, func(c *api.ContainerStatus) { exit(c, 128); c.Reason, c.Message = "StartError", "context canceled" })
			s.inTheWay(func(ctx context.Context, call string) error {
				if call == "ContainerStatus" {
					return fault(ctx)
				}
				return nil
			})
			for range 3 {
				pods := listOf(t, rt)
				require.Len(t, pods, 2)
				assert.Equal(t, runtime.StateExited, pods["u1"].Containers[0].State, "for now")
			}
			assert.Equal(t, 1, s.count("ContainerStatus"), "not asked again at once")

			s.inTheWay(nil)
			rt.mu.Lock()
			rt.mu.askAgain[id.ID] = time.Now()
			rt.mu.Unlock()
			assert.Equal(t, runtime.StateCreated, listOf(t, rt)["u1"].Containers[0].State)
			assert.Empty(t, rt.mu.askAgain)

			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := rt.List(ctx, runtime.ListOptions{})
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}
