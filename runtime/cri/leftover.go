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

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

// containerd (1.6 to 2.4) may fail a start because its client is gone, after the creation of the
// container's process (the task) and before the process became the container's program. containerd
// then reports the container as exited and never started, and forgets to delete the task. From then
// on StopContainer does nothing, since nothing runs. StartContainer refuses. RemoveContainer and
// RemovePodSandbox fail until containerd is restarted. Ending the process is not enough: the task
// blocks the removal.
//
// After exactly such a failed removal the backend deletes the task through containerd's own API, on
// the same socket as the CRI. No other container can be hit.

// Names in containerd's API for containers of the CRI.
const (
	tasksService      = "containerd.services.tasks.v1.Tasks"
	containersService = "containerd.services.containers.v1.Containers"
	sandboxesService  = "containerd.services.sandbox.v1.Store"
	namespaceHeader   = "containerd-namespace"
	criNamespace      = "k8s.io"

	containerdTimeout = 10 * time.Second // per call
)

// hasLeftTask reports whether err is the failed removal of a never started container with a task.
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

// removeWithTask removes a container whose removal failed with err because of a task left by
// containerd. For any other cause removeWithTask returns err.
func (r *client) removeWithTask(ctx context.Context, id string, err error) error {
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
		zap.String("pod", st.GetLabels()[containermeta.LabelPodNamespace]+"/"+st.GetLabels()[containermeta.LabelPodName]),
		zap.String("podUID", string(podUID(st.GetLabels()))),
		zap.String("container", st.GetLabels()[containermeta.LabelContainerName]), zap.String("containerID", id))
	return r.remove(ctx, id)
}

// removeLostTask removes the task, if any, and the container of a stopped sandbox. containerd 2
// fails a RunPodSandbox whose client is gone and cannot clean up, because the task blocks the
// cleanup. containerd then lists the sandbox as not ready. A stop does nothing, and a removal
// reports success but keeps the container, the shim, and the process below the shim.
func (r *client) removeLostTask(ctx context.Context, st *api.PodSandboxStatus) error {
	if r.info.Name != "containerd" || podUID(st.GetLabels()) == "" {
		return nil
	}
	id := st.GetId()
	err := r.callContainerd(ctx, tasksService, "Get", idMessage(id))
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = r.deleteTask(ctx, id)
	}
	if err == nil {
		err = gone(r.callContainerd(ctx, containersService, "Delete", idMessage(id)))
	}
	if err != nil {
		return fmt.Errorf("remove the task that a failed start of the sandbox has left: %w", withoutKind(err))
	}
	r.log.Warn("deleted the task that containerd had left behind when the start of the sandbox failed",
		zap.String("pod", st.GetMetadata().GetNamespace()+"/"+st.GetMetadata().GetName()),
		zap.String("podUID", string(podUID(st.GetLabels()))), zap.String("sandboxID", id))
	return nil
}

// deleteTask kills a container's processes and deletes its task. A missing task or process is no
// error.
func (r *client) deleteTask(ctx context.Context, id string) error {
	const (
		fieldSignal, fieldAll = 3, 4
		sigkill               = 9
	)
	task := idMessage(id)
	kill := protowire.AppendVarint(protowire.AppendTag(task[:len(task):len(task)], fieldSignal, protowire.VarintType), sigkill)
	kill = protowire.AppendVarint(protowire.AppendTag(kill, fieldAll, protowire.VarintType), 1)
	for _, step := range []struct {
		method  string
		message []byte
	}{{"Kill", kill}, {"Wait", task}, {"Delete", task}} { // Delete hangs while there is a process
		if err := gone(r.callContainerd(ctx, tasksService, step.method, step.message)); err != nil {
			return err
		}
	}
	return nil
}

// idMessage is a message of containerd's API with an ID as its only field.
func idMessage(id string) []byte {
	const fieldID = 1
	return protowire.AppendString(protowire.AppendTag(nil, fieldID, protowire.BytesType), id)
}

// callContainerd makes a call to containerd's own API whose answer is not read.
func (r *client) callContainerd(ctx context.Context, service, method string, message []byte) error {
	_, err := r.askContainerd(ctx, service, method, message)
	return err
}

// askContainerd makes a call to containerd's own API, in the namespace of its CRI, and returns the
// answer. The messages are a few bytes; containerd's module for the messages would add its
// dependencies.
func (r *client) askContainerd(ctx context.Context, service, method string, message []byte) ([]byte, error) {
	call := func(ctx context.Context, request *emptypb.Empty, opts ...grpc.CallOption) (*emptypb.Empty, error) {
		answer := new(emptypb.Empty)
		return answer, r.conn.Invoke(ctx, "/"+service+"/"+method, request, answer, opts...)
	}
	request := new(emptypb.Empty)
	request.ProtoReflect().SetUnknown(message)
	name := service[strings.LastIndexByte(service, '.')+1:] + "." + method
	answer, err := do(metadata.AppendToOutgoingContext(ctx, namespaceHeader, criNamespace), containerdTimeout, name, call, request)
	if err != nil {
		return nil, err
	}
	return answer.ProtoReflect().GetUnknown(), nil
}
