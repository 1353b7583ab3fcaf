// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

// tasksDesc describes the calls of containerd's own API answered by the server.
var tasksDesc = grpc.ServiceDesc{
	ServiceName: "containerd.services.tasks.v1.Tasks",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{taskMethod("Get"), taskMethod("Kill"), taskMethod("Wait"), taskMethod("Delete")},
}

func taskMethod(name string) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		request := new(emptypb.Empty)
		if err := decode(request); err != nil {
			return nil, err
		}
		info := &grpc.UnaryServerInfo{Server: srv, FullMethod: "/containerd.services.tasks.v1.Tasks/" + name}
		return intercept(ctx, request, info, func(ctx context.Context, _ any) (any, error) {
			return new(emptypb.Empty), srv.(*server).task(ctx, path.Base(info.FullMethod), request.ProtoReflect().GetUnknown())
		})
	}}
}

// containersDesc are the calls about containerd's own containers.
var containersDesc = grpc.ServiceDesc{
	ServiceName: "containerd.services.containers.v1.Containers",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		containerMethod("Get", func(*server, string) {}),
		containerMethod("Delete", func(s *server, id string) { delete(s.known, id) }),
	},
}

func containerMethod(name string, do func(s *server, id string)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		request := new(emptypb.Empty)
		if err := decode(request); err != nil {
			return nil, err
		}
		s := srv.(*server)
		s.mu.Lock()
		defer s.mu.Unlock()
		id, _, err := readTaskRequest(request.ProtoReflect().GetUnknown())
		if err == nil && !s.known[id] {
			err = status.Errorf(codes.NotFound, "container %q in namespace %q: not found", id, metadata.ValueFromIncomingContext(ctx, "containerd-namespace"))
		}
		if err == nil {
			do(s, id)
		}
		return new(emptypb.Empty), err
	}}
}

// States of a task.
const (
	taskCreated = "created"
	taskDying   = "dying" // killed; a Wait call sees the task end
	taskStopped = "stopped"
)

// task does containerd's work on the task of a request.
func (s *server) task(ctx context.Context, call string, request []byte) error {
	namespace := metadata.ValueFromIncomingContext(ctx, "containerd-namespace")
	if len(namespace) != 1 || namespace[0] != "k8s.io" {
		return status.Error(codes.FailedPrecondition, "namespace is required")
	}
	id, numbers, err := readTaskRequest(request)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	state, ok := s.tasks[id]
	switch {
	case !ok:
		return status.Errorf(codes.NotFound, "task %s not found", id)
	case call == "Get":
	case call == "Kill" && (numbers[3] != 9 || numbers[4] != 1):
		return status.Errorf(codes.InvalidArgument, "signal %d, all %d", numbers[3], numbers[4])
	case call == "Kill" && state == taskStopped:
		return status.Error(codes.NotFound, "process already finished")
	case call == "Kill":
		s.tasks[id] = taskDying
	case call == "Wait" && state != taskCreated:
		s.tasks[id] = taskStopped
	case call == "Delete" && state == taskStopped:
		delete(s.tasks, id)
	default:
		return status.Errorf(codes.DeadlineExceeded, "%s waits for the process to end", call)
	}
	return nil
}

func readTaskRequest(b []byte) (id string, numbers map[protowire.Number]uint64, err error) {
	numbers = make(map[protowire.Number]uint64)
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		b = b[max(0, n):]
		switch {
		case n > 0 && field == 1 && kind == protowire.BytesType:
			id, n = protowire.ConsumeString(b)
		case n > 0 && kind == protowire.VarintType:
			numbers[field], n = protowire.ConsumeVarint(b)
		default:
			return "", nil, fmt.Errorf("field %d of kind %d", field, kind)
		}
		if n < 0 {
			return "", nil, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return id, numbers, nil
}

// taskInTheWay is the error of containerd 1.6 and 2.4.
func taskInTheWay(id string) error {
	return status.Errorf(codes.FailedPrecondition, "failed to delete containerd container %q: cannot delete running task %s: failed precondition", id, id)
}

// leaves makes containerd fail the start of a container and leave a task behind.
func (s *server) leaves(id runtime.ContainerID, task string) {
	s.edit(id, func(c *api.ContainerStatus) {
		exit(c, 128)
		c.Reason, c.Message = "StartError", "failed to create containerd task: failed to get task pid: context canceled"
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[id.ID] = task
}

func (s *server) leftTasks() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.tasks)
}

// newContainerd returns a server named containerd and the observed logs.
func newContainerd(t *testing.T) (*server, Backend, *observer.ObservedLogs) {
	s := newServer(t)
	s.name = "containerd"
	core, logs := observer.New(zapcore.DebugLevel)
	rt, err := Dial(t.Context(), s.socket, Options{Root: t.TempDir(), Logger: zap.New(core)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = rt.Close() })
	return s, rt, logs
}

func TestRemovalOfAContainerWithATaskLeftBehind(t *testing.T) {
	for name, tc := range map[string]struct {
		task   string
		state  api.ContainerState
		remove func(Backend, runtime.SandboxID, runtime.ContainerID) error
	}{
		"exited": {task: taskCreated, state: api.ContainerState_CONTAINER_EXITED, remove: func(rt Backend, _ runtime.SandboxID, id runtime.ContainerID) error {
			return rt.RemoveContainer(t.Context(), id)
		}},
		"its process has ended": {task: taskStopped, state: api.ContainerState_CONTAINER_EXITED, remove: func(rt Backend, _ runtime.SandboxID, id runtime.ContainerID) error {
			return rt.RemoveContainer(t.Context(), id)
		}},
		"created": {task: taskCreated, state: api.ContainerState_CONTAINER_CREATED, remove: func(rt Backend, _ runtime.SandboxID, id runtime.ContainerID) error {
			return rt.RemoveContainer(t.Context(), id)
		}},
		"with its sandbox": {task: taskCreated, state: api.ContainerState_CONTAINER_EXITED, remove: func(rt Backend, sb runtime.SandboxID, _ runtime.ContainerID) error {
			return rt.RemoveSandbox(t.Context(), sb)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, rt, logs := newContainerd(t)
			_, other := running(t, rt, "u2")
			sb, id := made(t, rt, "u1")
			s.leaves(id, tc.task)
			s.leaves(other, taskCreated) // not requested by any call
			s.edit(id, func(c *api.ContainerStatus) { c.State = tc.state })
			require.NoError(t, tc.remove(rt, sb, id))
			assert.Equal(t, map[string]string{other.ID: taskCreated}, s.leftTasks())
			if p := listOf(t, rt)["u1"]; p != nil {
				assert.Empty(t, p.Containers)
			}

			entries := logs.FilterLevelExact(zapcore.WarnLevel).All()
			require.Len(t, entries, 1)
			assert.Equal(t, map[string]any{"pod": "ns/pod-u1", "podUID": "u1", "container": "main", "containerID": id.ID}, entries[0].ContextMap())
		})
	}
}

// If the task cannot be deleted, the removal keeps its original error, not nil, "unsupported", or
// "not found".
func TestRemovalWhereTheTaskStays(t *testing.T) {
	for _, call := range []string{"Kill", "Wait", "Delete"} {
		for _, code := range []codes.Code{codes.Unimplemented, codes.Unknown, codes.DeadlineExceeded} {
			s, rt, logs := newContainerd(t)
			_, id := made(t, rt, "u1")
			s.leaves(id, taskCreated)
			s.fail(call, code, "no")
			err := rt.RemoveContainer(t.Context(), id)
			assert.ErrorContains(t, err, "cannot delete running task", "what failed first")
			assert.ErrorContains(t, err, "Tasks."+call)
			assert.NotErrorIs(t, err, runtime.ErrNotFound)
			assert.NotErrorIs(t, err, runtime.ErrUnsupported)
			assert.Contains(t, s.leftTasks(), id.ID)
			assert.Zero(t, logs.Len(), "what is returned is not logged")
			s.inTheWay(nil)
			assert.NoError(t, rt.RemoveContainer(t.Context(), id), "it is tried again")
		}
	}
}

func TestRemovalWithATaskEndsWithItsContext(t *testing.T) {
	s, rt, _ := newContainerd(t)
	_, id := made(t, rt, "u1")
	s.leaves(id, taskCreated)
	ctx, cancel := context.WithCancel(t.Context())
	s.inTheWay(func(call context.Context, name string) error {
		if name == "Wait" {
			cancel()
			<-call.Done()
		}
		return nil
	})
	assert.ErrorIs(t, rt.RemoveContainer(ctx, id), context.Canceled)
}

// Only containerd leaves such tasks, and only for a container never started.
func TestRemovalsThatTouchNoTask(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := made(t, rt, "u1")
	s.leaves(id, taskCreated)
	assert.ErrorContains(t, rt.RemoveContainer(t.Context(), id), "cannot delete running task", "of another runtime")
	assert.Zero(t, s.count("Kill"))

	s, rt, _ = newContainerd(t)
	_, id = made(t, rt, "u1")
	s.leaves(id, taskCreated)
	s.edit(id, func(c *api.ContainerStatus) { c.StartedAt = 1 })
	assert.ErrorContains(t, rt.RemoveContainer(t.Context(), id), "cannot delete running task", "it ran")
	assert.Zero(t, s.count("Kill"))
}

func TestRecognitionOfALeftTask(t *testing.T) {
	const id = "0123456789abcdef"
	var (
		labels = map[string]string{containermeta.LabelPodUID: "u1"}
		failed = &api.ContainerStatus{Id: id, Labels: labels, State: api.ContainerState_CONTAINER_EXITED}
	)
	refusal := func(code codes.Code, message string) error {
		return fmt.Errorf("remove: %w", &CallError{Call: "RemoveContainer", Code: code, Message: message})
	}
	const words = "cannot delete running task "
	for _, tc := range []struct {
		name string
		err  error
		st   *api.ContainerStatus
		want assert.BoolAssertionFunc
	}{
		{"containerd's", refusal(codes.FailedPrecondition, `failed to delete containerd container "`+id+`": `+words+id+": failed precondition"), failed, assert.True},
		{"nothing after it", refusal(codes.FailedPrecondition, words+id), failed, assert.True},
		{"created", refusal(codes.FailedPrecondition, words+id), &api.ContainerStatus{Id: id, Labels: labels}, assert.True},
		{"another code", refusal(codes.Unknown, words+id), failed, assert.False},
		{"another message", refusal(codes.FailedPrecondition, "container "+id+" is busy"), failed, assert.False},
		{"another container", refusal(codes.FailedPrecondition, words+"fedcba9876543210"), failed, assert.False},
		{"another container with a longer ID", refusal(codes.FailedPrecondition, words+id+"0"), failed, assert.False},
		{"another call", &CallError{Call: "RemovePodSandbox", Code: codes.FailedPrecondition, Message: words + id}, failed, assert.False},
		{"no call's", errors.New(words + id), failed, assert.False},
		{"no error", nil, failed, assert.False},
		{"no status", refusal(codes.FailedPrecondition, words), nil, assert.False},
		{"no ID", refusal(codes.FailedPrecondition, words), &api.ContainerStatus{Labels: labels}, assert.False},
		{"nobody's", refusal(codes.FailedPrecondition, words+id), &api.ContainerStatus{Id: id}, assert.False},
		{"running", refusal(codes.FailedPrecondition, words+id), &api.ContainerStatus{Id: id, Labels: labels, State: api.ContainerState_CONTAINER_RUNNING}, assert.False},
		{"unknown", refusal(codes.FailedPrecondition, words+id), &api.ContainerStatus{Id: id, Labels: labels, State: api.ContainerState_CONTAINER_UNKNOWN}, assert.False},
		{"it ran", refusal(codes.FailedPrecondition, words+id), &api.ContainerStatus{Id: id, Labels: labels, State: api.ContainerState_CONTAINER_EXITED, StartedAt: 1}, assert.False},
	} {
		tc.want(t, hasLeftTask(tc.err, tc.st), tc.name)
	}
}

// containerd 2 cannot clean up after a RunPodSandbox whose client died between two steps.
// containerd keeps a task of a sandbox not ready, and RemovePodSandbox leaves the task.
func TestTaskOfASandboxThatContainerdForgot(t *testing.T) {
	s := newServer(t)
	s.name = "containerd"
	core, log := observer.New(zapcore.WarnLevel)
	rt, err := Dial(t.Context(), s.socket, Options{Root: t.TempDir(), Logger: zap.New(core)})
	require.NoError(t, err)
	defer rt.Close()
	for _, cut := range []bool{false, true} {
		id, err := rt.RunSandbox(t.Context(), sandboxSpecOf(testPod("u1")))
		require.NoError(t, err)
		s.mu.Lock()
		s.known[string(id)] = true
		if cut {
			s.tasks[string(id)] = taskCreated
		}
		s.mu.Unlock()
		if cut { // the CRI keeps the sandbox, so the next attempt finds the task
			s.fail("Delete", codes.Unavailable, "containerd is going down")
			require.ErrorContains(t, rt.RemoveSandbox(t.Context(), id), "the task that a failed start of the sandbox has left")
			s.inTheWay(nil)
			require.Contains(t, s.sandboxes, string(id))
		}
		require.NoError(t, rt.RemoveSandbox(t.Context(), id))
		assert.Empty(t, s.tasks)
		assert.Equal(t, !cut, s.known[string(id)], "what the CRI does by itself is left to it")
		assert.NotContains(t, s.sandboxes, string(id))
		assert.Equal(t, cut, log.Len() > 0)
	}
}
