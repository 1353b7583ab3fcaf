// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// LogReopener lets somebody else rotate logs, as package runtime/logs does.
type LogReopener interface {
	// ReopenLog makes the runtime write to a new log file after the old one was
	// renamed.
	ReopenLog(ctx context.Context, id runtime.ContainerID) error
}

// UpdateResources implements runtime.Updater. Limits that are not in want are
// taken away, which the kubelet cannot do (kubernetes#128675).
func (r *Runtime) UpdateResources(ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error {
	if !goodID(id.ID) {
		return notFound("UpdateContainerResources", id.ID)
	}
	// A runtime would also take it for a container that does not run, for when it
	// is started.
	st, err := r.containerStatus(ctx, id.ID)
	if err != nil {
		return err
	}
	if st.GetState() != api.ContainerState_CONTAINER_RUNNING {
		return notRunning("UpdateContainerResources", st)
	}
	_, err = do(ctx, callTimeout, "UpdateContainerResources", r.cri.UpdateContainerResources,
		&api.UpdateContainerResourcesRequest{ContainerId: id.ID, Linux: updateOf(demandOf(&want), r.node)})
	return err
}

// noLimit is the kernel's word for a limit that is taken away; 0 would leave it
// as it is.
const noLimit = -1

// updateOf says all that d does, and what it does not limit.
func updateOf(d demand, n node) *api.LinuxContainerResources {
	out := d.linuxResources()
	if out.CpuQuota == 0 {
		out.CpuQuota = noLimit
	}
	if out.MemoryLimitInBytes == 0 {
		out.MemoryLimitInBytes = noLimit
	}
	if n.qos != nil {
		out.Unified = n.qos.unifiedMemory(d, n)
	}
	return out
}

// ReopenLog implements LogReopener.
func (r *Runtime) ReopenLog(ctx context.Context, id runtime.ContainerID) error {
	if !goodID(id.ID) {
		return notFound("ReopenContainerLog", id.ID)
	}
	_, err := do(ctx, callTimeout, "ReopenContainerLog", r.cri.ReopenContainerLog, &api.ReopenContainerLogRequest{ContainerId: id.ID})
	if err == nil || ctx.Err() != nil || errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	if st, look := r.containerStatus(ctx, id.ID); look == nil && !mayRun(st.GetState()) {
		return notRunning("ReopenContainerLog", st)
	}
	return err
}

// notRunning is for calls about what only a running container has.
func notRunning(call string, st *api.ContainerStatus) error {
	return fmt.Errorf("%s: the container is %s: %w", call, stateOf(st.GetState()), runtime.ErrNotRunning)
}
