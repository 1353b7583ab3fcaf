// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Updater is what can be done with a container that runs, beside stopping it.
type Updater interface {
	// UpdateResources changes what the container may use of CPU and memory to
	// what is asked for. What is 0 or not said stays as it is: limits cannot be
	// taken away (kubernetes#128675).
	UpdateResources(ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error
	// ReopenLog makes the runtime write to a new log file after the old one was
	// renamed.
	ReopenLog(ctx context.Context, id runtime.ContainerID) error
}

// UpdateResources implements Updater.
func (r *Runtime) UpdateResources(ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error {
	if !goodID(id.ID) {
		return notFound("UpdateContainerResources", id.ID)
	}
	_, err := do(ctx, callTimeout, "UpdateContainerResources", r.cri.UpdateContainerResources,
		&api.UpdateContainerResourcesRequest{ContainerId: id.ID, Linux: updateOf(demandOf(&want))})
	return err
}

// updateOf says only what changes: 0 leaves a value as it is.
func updateOf(d demand) *api.LinuxContainerResources {
	out := &api.LinuxContainerResources{MemoryLimitInBytes: d.memoryLimit}
	if d.cpuRequest > 0 {
		out.CpuShares = cpuShares(d.cpuRequest)
	}
	if d.cpuLimit > 0 {
		out.CpuQuota, out.CpuPeriod = cpuQuota(d.cpuLimit), quotaPeriod
	}
	return out
}

// ReopenLog implements Updater.
func (r *Runtime) ReopenLog(ctx context.Context, id runtime.ContainerID) error {
	if !goodID(id.ID) {
		return notFound("ReopenContainerLog", id.ID)
	}
	_, err := do(ctx, callTimeout, "ReopenContainerLog", r.cri.ReopenContainerLog, &api.ReopenContainerLogRequest{ContainerId: id.ID})
	return err
}
