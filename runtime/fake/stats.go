// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// The calls for usage statistics.
const (
	OpContainerStats Op = "ContainerStats"
	OpListStats      Op = "ListStats"
)

var _ stats.Reader = (*Runtime)(nil)

// ContainerStats implements stats.Reader with Script.CPU and Script.Memory at the current
// time. Writable layers are not reported.
func (r *Runtime) ContainerStats(ctx context.Context, id runtime.ContainerID) (*stats.Container, error) {
	var out stats.Container
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

// ListStats implements stats.Reader. The usage of a pod is the sum over its containers.
// Network usage is zero.
func (r *Runtime) ListStats(ctx context.Context) ([]stats.Pod, error) {
	var out []stats.Pod
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
func (w *World) podStats(p *pod, now time.Time) (stats.Pod, bool) {
	out := stats.Pod{
		UID: p.uid, Namespace: p.namespace, Name: p.name,
		CPU: stats.CPU{At: now}, Memory: stats.Memory{At: now},
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
	slices.SortFunc(out.Containers, func(a, b stats.Container) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID.ID, b.ID.ID))
	})
	return out, out.Sandbox != "" || len(out.Containers) > 0
}

// containerStats returns the usage of a running container. World.mu is held.
func (w *World) containerStats(c *container, now time.Time) stats.Container {
	used := uint64(max(c.script.Memory, 0))
	return stats.Container{
		ID: w.idOf(c), Name: c.spec.Name,
		CPU:    stats.CPU{At: now, UsageNanoseconds: uint64(max(c.script.CPU, 0)) * uint64(max(now.Sub(c.started), 0)) / 1000},
		Memory: stats.Memory{At: now, Usage: used, WorkingSet: used},
	}
}
