// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// The calls for usage statistics.
const (
	OpContainerStats Op = "ContainerStats"
	OpListStats      Op = "ListStats"
)

var _ runtime.StatsReader = (*Runtime)(nil)

// ContainerStats implements runtime.StatsReader with Script.CPU and Script.Memory at the current
// time. Writable layers are not reported.
func (r *Runtime) ContainerStats(ctx context.Context, id runtime.ContainerID) (*runtime.ContainerStats, error) {
	var out runtime.ContainerStats
	err := r.onContainer(ctx, OpContainerStats, id, "", func(c *container) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if c.state != runtime.StateRunning {
			return fmt.Errorf("stats of %s, which is %s, not running", c.id, c.state)
		}
		out = r.containerStats(c, time.Now())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// ListStats implements runtime.StatsReader. The usage of a pod is the sum over its containers.
// Network usage is zero.
func (r *Runtime) ListStats(ctx context.Context) ([]runtime.PodStats, error) {
	var out []runtime.PodStats
	err := r.do(ctx, Call{Op: OpListStats}, "", "", func(*flight) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		now := time.Now()
		for _, p := range r.mu.order {
			if st, some := r.podStats(p, now); some {
				out = append(out, st)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// podStats returns the pod's usage and whether the pod has any running container or ready sandbox.
// World.mu is held.
func (w *World) podStats(p *pod, now time.Time) (runtime.PodStats, bool) {
	out := runtime.PodStats{
		UID: p.uid, Namespace: p.namespace, Name: p.name,
		CPU: runtime.CPUStats{At: now}, Memory: runtime.MemoryStats{At: now},
	}
	for _, s := range p.sandboxes {
		if s.ready {
			out.Sandbox = s.id
		}
	}
	for _, c := range p.containers {
		if c.state != runtime.StateRunning {
			continue
		}
		st := w.containerStats(c, now)
		out.CPU.UsageNanoseconds += st.CPU.UsageNanoseconds
		out.Memory.Usage += st.Memory.Usage
		out.Memory.WorkingSet += st.Memory.WorkingSet
		out.Containers = append(out.Containers, st)
	}
	slices.SortFunc(out.Containers, func(a, b runtime.ContainerStats) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID.ID, b.ID.ID))
	})
	return out, out.Sandbox != "" || len(out.Containers) > 0
}

// containerStats returns the usage of a running container. World.mu is held.
func (w *World) containerStats(c *container, now time.Time) runtime.ContainerStats {
	used := uint64(max(c.script.Memory, 0))
	return runtime.ContainerStats{
		ID: w.idOf(c), Name: c.spec.Name,
		CPU:    runtime.CPUStats{At: now, UsageNanoseconds: uint64(max(c.script.CPU, 0)) * uint64(max(now.Sub(c.started), 0)) / 1000},
		Memory: runtime.MemoryStats{At: now, Usage: used, WorkingSet: used},
	}
}
