// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
