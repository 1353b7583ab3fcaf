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
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// shimGone is containerd 1.6's error for a call under way when the shim's connection closed.
func shimGone() error {
	return status.Error(codes.Unknown, `failed to stop container "1": ttrpc: closed: unknown`)
}

// running returns a running container in its own sandbox.
func running(t *testing.T, rt Backend, uid string) (runtime.SandboxID, runtime.ContainerID) {
	t.Helper()
	sb, id := made(t, rt, uid)
	require.NoError(t, rt.StartContainer(t.Context(), id))
	return sb, id
}

// failsTimes makes a call fail the given number of times, each time after happens.
func (s *server) failsTimes(call string, times int, err error, happens func()) {
	first := s.count(call)
	s.inTheWay(func(_ context.Context, c string) error {
		if c != call || s.count(call)-first > times {
			return nil
		}
		happens()
		return err
	})
}

func TestStopThatFailsOfAContainerThatHasEnded(t *testing.T) {
	for _, code := range []codes.Code{codes.Unknown, codes.Internal, codes.Unavailable, codes.FailedPrecondition, codes.DeadlineExceeded} {
		s := newServer(t)
		rt := s.dial(t)
		_, id := running(t, rt, "u1")
		s.failsTimes("StopContainer", 1, status.Error(code, "ttrpc: closed"), func() {
			s.edit(id, func(c *api.ContainerStatus) { exit(c, 7) })
		})
		require.NoError(t, rt.StopContainer(t.Context(), id, time.Minute), code)
		assert.Equal(t, 1, s.count("StopContainer"), "it is stopped, and nobody stops it again")
	}
}

func TestStopThatFailsOfAContainerThatRunsOn(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := running(t, rt, "u1")
	s.failsTimes("StopContainer", 3, shimGone(), func() {})
	require.NoError(t, rt.StopContainer(t.Context(), id, time.Minute))
	assert.Equal(t, 4, s.count("StopContainer"))
	assert.Equal(t, api.ContainerState_CONTAINER_EXITED, s.state(id))
}

// After a failed stop the container keeps the rest of the grace period.
func TestStopThatFailsLeavesTheGrace(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := running(t, rt, "u1")
	var grace []int64
	s.asks(func(q any) {
		if stop, ok := q.(*api.StopContainerRequest); ok {
			grace = append(grace, stop.GetTimeout())
		}
	})
	s.failsTimes("StopContainer", 1, shimGone(), func() {})
	require.NoError(t, rt.StopContainer(t.Context(), id, 40*time.Second))
	assert.Equal(t, []int64{40, 40}, grace, "the second is what is left, rounded up; our own clock has the rest")

	_, id = running(t, rt, "u2")
	grace = nil
	s.failsTimes("StopContainer", 1, shimGone(), func() {})
	require.NoError(t, rt.StopContainer(t.Context(), id, 0))
	assert.Equal(t, []int64{0, 0}, grace)
}

func TestStopThatFailsForGood(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.PermissionDenied, codes.Unimplemented} {
		s := newServer(t)
		rt := s.dial(t)
		_, id := running(t, rt, "u1")
		s.fail("StopContainer", code, "no")
		err := rt.StopContainer(t.Context(), id, 0)
		assert.ErrorContains(t, err, "no", code)
		assert.Equal(t, 1, s.count("StopContainer"), "asking again is no use")
	}
}

// A runtime without an answer to ContainerStatus is down: the stop does not wait.
func TestStopThatFailsWithoutAStatus(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := running(t, rt, "u1")
	s.inTheWay(func(_ context.Context, call string) error {
		switch call {
		case "StopContainer":
			return shimGone()
		case "ContainerStatus":
			return status.Error(codes.Unavailable, "the status is not to be had")
		}
		return nil
	})
	assert.ErrorContains(t, rt.StopContainer(t.Context(), id, time.Minute), "ttrpc: closed", "what failed first")
	assert.Equal(t, 1, s.count("StopContainer"))
}

func TestStopThatFailsUntilItsContextEnds(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := running(t, rt, "u1")
	ctx, cancel := context.WithCancel(t.Context())
	s.inTheWay(func(_ context.Context, call string) error {
		if call != "StopContainer" {
			return nil
		}
		if s.count(call) == 3 {
			cancel()
		}
		return shimGone()
	})
	assert.ErrorIs(t, rt.StopContainer(ctx, id, time.Minute), context.Canceled)
	assert.Equal(t, 3, s.count("StopContainer"))
}

func TestSandboxCallsThatFail(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	sb, _ := running(t, rt, "u1")
	s.failsTimes("StopContainer", 2, shimGone(), func() {})
	require.NoError(t, rt.StopSandbox(t.Context(), sb), "its containers")
	s.failsTimes("StopPodSandbox", 2, shimGone(), func() {})
	require.NoError(t, rt.StopSandbox(t.Context(), sb))
	s.failsTimes("RemovePodSandbox", 1, shimGone(), func() {})
	require.NoError(t, rt.RemoveSandbox(t.Context(), sb))
	assert.Empty(t, listOf(t, rt))

	// containerd 2: the status is a moment behind the answer.
	sb, _ = running(t, rt, "u2")
	s.mu.Lock()
	s.lateStop = 20 * time.Millisecond
	s.mu.Unlock()
	require.NoError(t, rt.StopSandbox(t.Context(), sb))
	st, err := rt.PodStatus(t.Context(), "u2")
	require.NoError(t, err)
	require.False(t, st.Sandboxes[0].Ready)
	require.NoError(t, rt.RemoveSandbox(t.Context(), sb))
	s.mu.Lock()
	s.lateStop = 0
	s.mu.Unlock()

	// The container is removed although the call failed.
	sb, _ = running(t, rt, "u2")
	s.failsTimes("RemovePodSandbox", 1, shimGone(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sandboxes, string(sb))
	})
	require.NoError(t, rt.RemoveSandbox(t.Context(), sb))

	// A fault of the network persists.
	sb, _ = running(t, rt, "u3")
	before := s.count("StopPodSandbox")
	s.fail("StopPodSandbox", codes.Unknown, "cni plugin not initialized")
	assert.Error(t, rt.StopSandbox(t.Context(), sb))
	assert.Equal(t, 1, s.count("StopPodSandbox")-before)
}

func TestRemoveContainerThatFails(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := running(t, rt, "u1")
	s.failsTimes("RemoveContainer", 2, shimGone(), func() {})
	require.NoError(t, rt.RemoveContainer(t.Context(), id))
	assert.Equal(t, 3, s.count("RemoveContainer"))

	_, id = running(t, rt, "u2")
	before := s.count("RemoveContainer")
	s.fail("RemoveContainer", codes.FailedPrecondition, "busy")
	assert.ErrorContains(t, rt.RemoveContainer(t.Context(), id), "busy")
	assert.Equal(t, 1, s.count("RemoveContainer")-before)
}

func TestStartThatFailsOfAContainerThatRuns(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		then func(c *api.ContainerStatus)
		want require.ErrorAssertionFunc
	}{
		{"it runs", shimGone(), func(c *api.ContainerStatus) {
			c.State, c.StartedAt = api.ContainerState_CONTAINER_RUNNING, 1
		}, require.NoError},
		{"it has run", status.Error(codes.Unavailable, "restarting"), func(c *api.ContainerStatus) {
			c.StartedAt = 1
			exit(c, 0)
		}, require.NoError},
		{"it could not be started", shimGone(), func(c *api.ContainerStatus) { exit(c, 128) }, require.Error},
		{"nothing happened", shimGone(), func(*api.ContainerStatus) {}, require.Error},
		{"it was refused", status.Error(codes.Unknown, "no such program"), func(c *api.ContainerStatus) {
			c.State, c.StartedAt = api.ContainerState_CONTAINER_RUNNING, 1 // whoever looks now would be wrong
		}, require.Error},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			rt := s.dial(t)
			_, id := made(t, rt, "u1")
			s.failsTimes("StartContainer", 1, tc.err, func() { s.edit(id, tc.then) })
			tc.want(t, rt.StartContainer(t.Context(), id))
			assert.Equal(t, 1, s.count("StartContainer"), "a start is never made twice")
		})
	}
}
