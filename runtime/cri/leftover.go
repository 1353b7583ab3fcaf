// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
)

// containerd (1.6 to 2.4) may fail a start because its client is gone, right
// after it made the container's process, its task, and before that became the
// container's program. It then says that the container has exited and never
// started, and forgets to delete the task. From then on StopContainer does
// nothing, since nothing runs, StartContainer refuses, and RemoveContainer fails,
// and RemovePodSandbox with it, until somebody restarts containerd. Nor is it
// enough that the process ends: it is the task that is in the way.
//
// So a removal that fails in just this manner deletes the task as containerd does
// where it does not forget: through its own API, which is on the same socket as
// the CRI. Nothing of another container can be hit.

// What containerd's API wants to know of a container of the CRI.
const (
	tasksService    = "/containerd.services.tasks.v1.Tasks/"
	namespaceHeader = "containerd-namespace"
	criNamespace    = "k8s.io"

	taskTimeout = 10 * time.Second // for one call
)

// hasLeftTask reports whether err is that of the removal of a container that was
// never started and has a task nevertheless.
func hasLeftTask(err error, st *api.ContainerStatus) bool {
	e, ok := errors.AsType[*CallError](err)
	if !ok || e.Call != "RemoveContainer" || e.Code != codes.FailedPrecondition || podUID(st.GetLabels()) == "" {
		return false
	}
	if mayRun(st.GetState()) || st.GetStartedAt() > 0 {
		return false
	}
	_, rest, found := strings.Cut(e.Message, "cannot delete running task "+st.GetId())
	return found && st.GetId() != "" && (rest == "" || rest[0] == ':')
}

// removeWithTask removes a container whose removal has failed with err, if that
// is because containerd has left a task behind; err if not.
func (r *Runtime) removeWithTask(ctx context.Context, id string, err error) error {
	if r.info.Name != "containerd" {
		return err
	}
	st, look := r.containerStatus(ctx, id)
	if look != nil || !hasLeftTask(err, st) {
		return err
	}
	if failed := r.deleteTask(ctx, id); failed != nil {
		return fmt.Errorf("%w; delete the task that a failed start has left: %w", err, withoutKind(failed))
	}
	r.log.Warn("deleted the task that containerd had left behind when the start of the container failed",
		zap.String("pod", st.GetLabels()[runtime.LabelPodNamespace]+"/"+st.GetLabels()[runtime.LabelPodName]),
		zap.String("podUID", string(podUID(st.GetLabels()))),
		zap.String("container", st.GetLabels()[runtime.LabelContainerName]), zap.String("containerID", id))
	return r.remove(ctx, id)
}

// deleteTask ends what runs of a container and deletes its task. A task or a
// process that is not there is fine.
func (r *Runtime) deleteTask(ctx context.Context, id string) error {
	const (
		fieldID, fieldSignal, fieldAll = 1, 3, 4 // of their messages
		sigkill                        = 9
	)
	task := protowire.AppendString(protowire.AppendTag(nil, fieldID, protowire.BytesType), id)
	kill := protowire.AppendVarint(protowire.AppendTag(task[:len(task):len(task)], fieldSignal, protowire.VarintType), sigkill)
	kill = protowire.AppendVarint(protowire.AppendTag(kill, fieldAll, protowire.VarintType), 1)
	if err := r.callTasks(ctx, "Kill", kill); err != nil {
		return err
	}
	if err := r.callTasks(ctx, "Wait", task); err != nil { // Delete hangs while there is a process
		return err
	}
	return r.callTasks(ctx, "Delete", task)
}

// callTasks makes a call to containerd's API for tasks. The messages are a few
// bytes: containerd's module for them would bring its dependencies along.
func (r *Runtime) callTasks(ctx context.Context, method string, message []byte) error {
	call := func(ctx context.Context, request *emptypb.Empty, opts ...grpc.CallOption) (*emptypb.Empty, error) {
		answer := new(emptypb.Empty)
		return answer, r.conn.Invoke(ctx, tasksService+method, request, answer, opts...)
	}
	request := new(emptypb.Empty)
	request.ProtoReflect().SetUnknown(message)
	_, err := do(metadata.AppendToOutgoingContext(ctx, namespaceHeader, criNamespace), taskTimeout, "Tasks."+method, call, request)
	return gone(err)
}
