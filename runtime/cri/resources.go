// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"maps"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// The kernel's bounds and the kubelet's constants for CPU time.
const (
	minShares    = 2
	maxShares    = 262144
	sharesPerCPU = 1024
	quotaPeriod  = 100_000 // µs
	minQuota     = 1000    // µs
)

// cpuShares is the weight of a request of so many thousandths of a CPU.
func cpuShares(milli int64) int64 {
	if milli > maxShares {
		return maxShares // avoids an overflow
	}
	return min(max(milli*sharesPerCPU/1000, minShares), maxShares)
}

// cpuQuota is how many µs of each period a limit of so many thousandths of a CPU
// allows; 0: no limit.
func cpuQuota(milli int64) int64 {
	switch {
	case milli <= 0:
		return 0
	case milli > 1<<40: // more than a billion CPUs
		return 0
	}
	return max(milli*quotaPeriod/1000, minQuota)
}

// milliOfShares is the inverse of cpuShares, up to rounding.
func milliOfShares(shares int64) int64 {
	if shares <= minShares {
		return 0
	}
	return (shares*1000 + sharesPerCPU - 1) / sharesPerCPU
}

// milliOfQuota is the inverse of cpuQuota; 0: no limit.
func milliOfQuota(quota, period int64) int64 {
	if quota <= 0 || period <= 0 {
		return 0
	}
	return quota * 1000 / period
}

// demand is the resources of a container or pod; 0 means unset.
type demand struct {
	cpuRequest, cpuLimit       int64 // thousandths
	memoryRequest, memoryLimit int64 // bytes
}

func demandOf(r *v1.ResourceRequirements) demand {
	if r == nil {
		return demand{}
	}
	d := demand{
		cpuRequest:    r.Requests.Cpu().MilliValue(),
		cpuLimit:      r.Limits.Cpu().MilliValue(),
		memoryRequest: r.Requests.Memory().Value(),
		memoryLimit:   r.Limits.Memory().Value(),
	}
	// A limit without a request is a request, too; API defaulting adds the request, but a manifest
	// from a file may lack the default.
	if _, ok := r.Requests[v1.ResourceCPU]; !ok {
		d.cpuRequest = d.cpuLimit
	}
	if _, ok := r.Requests[v1.ResourceMemory]; !ok {
		d.memoryRequest = d.memoryLimit
	}
	return d
}

// linuxResources are a demand in the kernel's terms.
func (d demand) linuxResources() *api.LinuxContainerResources {
	return &api.LinuxContainerResources{
		CpuShares:          cpuShares(d.cpuRequest),
		CpuQuota:           cpuQuota(d.cpuLimit),
		CpuPeriod:          quotaPeriod,
		MemoryLimitInBytes: max(d.memoryLimit, 0),
	}
}

// containerResources returns the limits of one container. A pod-level limit replaces a missing
// limit of the container.
func containerResources(pod *v1.Pod, c *v1.Container, group runtime.Group, n node) *api.LinuxContainerResources {
	d := demandOf(&c.Resources)
	whole := demandOf(pod.Spec.Resources)
	if d.cpuLimit == 0 {
		d.cpuLimit = whole.cpuLimit
	}
	if d.memoryLimit == 0 {
		d.memoryLimit = whole.memoryLimit
	}
	out := d.linuxResources()
	out.OomScoreAdj = oomScoreAdj(pod, c, group, n.memory)
	out.HugepageLimits = hugePageLimits(c.Resources.Limits, n.hugePages)
	if n.cgroup2 {
		// The OOM kill of a process kills its whole container (1.28).
		out.Unified = map[string]string{"memory.oom.group": "1"}
		if n.policy != SwapOfRuntime {
			out.Unified[memorySwapMax] = strconv.FormatInt(n.policy.swapOf(pod, d, n), 10)
		}
		if n.qos != nil {
			maps.Copy(out.Unified, n.qos.unifiedMemory(d, n))
		}
	}
	return out
}

// hugePageLimits sets the limit of every page size; sizes without a limit in limits are forbidden.
func hugePageLimits(limits v1.ResourceList, sizes []string) []*api.HugepageLimit {
	wanted := make(map[string]uint64)
	for name, quantity := range limits {
		size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
		if !ok {
			continue
		}
		if bytes, err := parseQuantity(size); err == nil && bytes > 0 {
			wanted[pageSizeName(bytes)] = uint64(max(quantity.Value(), 0))
		}
	}
	var out []*api.HugepageLimit
	for _, size := range sizes {
		out = append(out, &api.HugepageLimit{PageSize: size, Limit: wanted[size]})
	}
	return out
}

// podResources returns the resources of the whole pod and the pod's overhead; overhead is nil for a
// pod without overhead. Runtimes with a virtual machine per sandbox size the machine by both.
func podResources(pod *v1.Pod) (resources, overhead *api.LinuxContainerResources) {
	resources = podDemand(pod).linuxResources()
	if len(pod.Spec.Overhead) > 0 {
		r := v1.ResourceRequirements{Requests: pod.Spec.Overhead, Limits: pod.Spec.Overhead}
		overhead = demandOf(&r).linuxResources()
	}
	return resources, overhead
}

// podDemand sums up a pod. Regular containers and sidecars run together; each plain init container
// runs with the sidecars before it. A container without a limit makes the pod unlimited. Pod-level
// resources override the sum.
func podDemand(pod *v1.Pod) demand {
	var together, peak demand
	unlimited := demand{}
	mark := func(d demand) {
		if d.cpuLimit == 0 {
			unlimited.cpuLimit = 1
		}
		if d.memoryLimit == 0 {
			unlimited.memoryLimit = 1
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		d := demandOf(&c.Resources)
		mark(d)
		if podfacts.IsSidecar(c) {
			together = together.plus(d)
			peak = peak.or(together)
			continue
		}
		peak = peak.or(together.plus(d))
	}
	for i := range pod.Spec.Containers {
		d := demandOf(&pod.Spec.Containers[i].Resources)
		mark(d)
		together = together.plus(d)
	}
	sum := peak.or(together)
	if unlimited.cpuLimit != 0 {
		sum.cpuLimit = 0
	}
	if unlimited.memoryLimit != 0 {
		sum.memoryLimit = 0
	}
	return demandOf(pod.Spec.Resources).orElse(sum)
}

func (d demand) plus(e demand) demand {
	return demand{d.cpuRequest + e.cpuRequest, d.cpuLimit + e.cpuLimit, d.memoryRequest + e.memoryRequest, d.memoryLimit + e.memoryLimit}
}

// or is the larger of each.
func (d demand) or(e demand) demand {
	return demand{max(d.cpuRequest, e.cpuRequest), max(d.cpuLimit, e.cpuLimit), max(d.memoryRequest, e.memoryRequest), max(d.memoryLimit, e.memoryLimit)}
}

// orElse fills the unset fields of d from e.
func (d demand) orElse(e demand) demand {
	pick := func(a, b int64) int64 {
		if a != 0 {
			return a
		}
		return b
	}
	return demand{pick(d.cpuRequest, e.cpuRequest), pick(d.cpuLimit, e.cpuLimit), pick(d.memoryRequest, e.memoryRequest), pick(d.memoryLimit, e.memoryLimit)}
}
