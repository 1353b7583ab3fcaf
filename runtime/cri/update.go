// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/runtime"
)

// LogReopener reopens logs after a rotation by another component, such as package runtime/logs.
type LogReopener interface {
	// ReopenLog makes the runtime write to a new log file after the old one was
	// renamed.
	ReopenLog(ctx context.Context, id runtime.ContainerID) error
}

// UpdateResources implements runtime.Updater. Limits missing from want are removed, which the
// kubelet cannot do (kubernetes#128675).
func (r *client) UpdateResources(ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error {
	if !goodID(id.ID) {
		return notFound("UpdateContainerResources", id.ID)
	}
	// A runtime would also accept limits for a container not running, and apply the limits at its
	// start.
	st, err := r.containerStatus(ctx, id.ID)
	if err != nil {
		return err
	}
	if st.GetState() != api.ContainerState_CONTAINER_RUNNING {
		return notRunning("UpdateContainerResources", st)
	}
	_, err = do(ctx, callTimeout, "UpdateContainerResources", r.cri.UpdateContainerResources,
		&api.UpdateContainerResourcesRequest{ContainerId: id.ID, Linux: updateOf(podresources.Of(&want), r.node)})
	return err
}

// noLimit removes a limit in the kernel; 0 would leave the limit unchanged.
const noLimit = -1

// updateOf returns all resources of d, with unset limits removed.
func updateOf(d podresources.Demand, n node) *api.LinuxContainerResources {
	out := linuxResources(d)
	out.CpuQuota = cmp.Or(out.CpuQuota, noLimit)
	out.MemoryLimitInBytes = cmp.Or(out.MemoryLimitInBytes, noLimit)
	if n.qos != nil {
		out.Unified = n.qos.throttling(d, n) // the protection stays that of the start
	}
	return out
}

// ReopenLog implements LogReopener.
func (r *client) ReopenLog(ctx context.Context, id runtime.ContainerID) error {
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

// notRunning is the error of calls requiring a running container.
func notRunning(call string, st *api.ContainerStatus) error {
	return fmt.Errorf("%s: the container is %s: %w", call, stateOf(st.GetState()), runtime.ErrNotRunning)
}
