// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// The calls about resources.
const (
	OpUpdateResources Op = "UpdateResources"
	OpMemoryUsage     Op = "MemoryUsage"
)

var (
	_ runtime.Updater     = (*Runtime)(nil)
	_ runtime.MemoryMeter = (*Runtime)(nil)
)

// UpdateResources implements runtime.Updater. The only effect is on PodStatus, which reports the
// values rounded like a kernel.
func (r *Runtime) UpdateResources(ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error {
	return r.onContainer(ctx, OpUpdateResources, id, describe(&want), func(c *container) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if c.state != runtime.StateRunning {
			return fmt.Errorf("update %s, which is %s, not running", c.id, c.state)
		}
		c.resources = want.DeepCopy()
		return nil
	})
}

// Retune gives the newest running instance of a container the cpu and memory in to, like an
// administrator who writes to its cgroup. Resources that are not in to stay. No event tells the
// agent. The error is ErrNotFound if no instance runs.
func (w *World) Retune(uid types.UID, name string, to v1.ResourceRequirements) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, err := w.running(uid, name)
	if err != nil {
		return err
	}
	given := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	for _, r := range []*v1.ResourceRequirements{cmp.Or(c.resources, &c.spec.Container.Resources), &to} {
		maps.Copy(given.Requests, r.Requests)
		maps.Copy(given.Limits, r.Limits)
	}
	c.resources = &given
	w.event(c.call(OpRetuned), c.id, describe(&to))
	return nil
}

// MemoryUsage implements runtime.MemoryMeter with Script.Memory.
func (r *Runtime) MemoryUsage(ctx context.Context, id runtime.ContainerID) (int64, error) {
	var used int64
	err := r.onContainer(ctx, OpMemoryUsage, id, "", func(c *container) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if c.state != runtime.StateRunning {
			return fmt.Errorf("memory of %s, which is %s, not running", c.id, c.state)
		}
		used = c.script.Memory
		return nil
	})
	if err != nil {
		return 0, err
	}
	return used, nil
}

// describe returns cpu and memory as request/limit, for the journal.
func describe(r *v1.ResourceRequirements) string {
	return fmt.Sprintf("cpu %s/%s memory %s/%s",
		r.Requests.Cpu(), r.Limits.Cpu(), r.Requests.Memory(), r.Limits.Memory())
}

// reportedResources returns the resources as a CRI runtime reports them: cpu converted back from
// shares and quota, and no memory request, because kernels have no memory request. World.mu is
// held.
func (c *container) reportedResources() *v1.ResourceRequirements {
	given := c.resources
	if given == nil {
		if c.spec.Container == nil {
			return nil
		}
		given = &c.spec.Container.Resources
	}
	out := v1.ResourceRequirements{}
	if shares := given.Requests.Cpu().MilliValue() * 1024 / 1000; shares > 2 {
		out.Requests = v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity((shares*1000+1023)/1024, resource.DecimalSI)}
	}
	limits := v1.ResourceList{}
	if cpu := given.Limits.Cpu().MilliValue(); cpu > 0 {
		limits[v1.ResourceCPU] = *resource.NewMilliQuantity(max(cpu, 10), resource.DecimalSI)
	}
	if memory := given.Limits.Memory().Value(); memory > 0 {
		limits[v1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
	}
	if len(limits) > 0 {
		out.Limits = limits
	}
	if out.Requests == nil && out.Limits == nil {
		return nil
	}
	return &out
}
