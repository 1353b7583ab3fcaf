// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"maps"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/internal/quantities"
	"github.com/keelson-dev/keelson/runtime"
)

// milliOfShares is the inverse of podresources.Shares, up to rounding.
func milliOfShares(shares int64) int64 {
	if shares <= podresources.MinShares {
		return 0
	}
	return (shares*1000 + podresources.SharesPerCPU - 1) / podresources.SharesPerCPU
}

// milliOfQuota is the inverse of podresources.Quota; 0: no limit.
func milliOfQuota(quota, period int64) int64 {
	if quota <= 0 || period <= 0 {
		return 0
	}
	return quota * 1000 / period
}

// linuxResources returns a demand in the kernel's terms.
func linuxResources(d podresources.Demand) *api.LinuxContainerResources {
	return &api.LinuxContainerResources{
		CpuShares:          podresources.Shares(d.CPURequest),
		CpuQuota:           podresources.Quota(d.CPULimit),
		CpuPeriod:          podresources.QuotaPeriod,
		MemoryLimitInBytes: max(d.MemoryLimit, 0),
	}
}

// containerResources returns the limits of one container.
func containerResources(pod *v1.Pod, c *v1.Container, group runtime.Group, n node) *api.LinuxContainerResources {
	d := podresources.OfContainer(pod, c)
	out := linuxResources(d)
	out.OomScoreAdj = oomScoreAdj(pod, c, group, n.memory)
	out.HugepageLimits = hugePageLimits(c.Resources.Limits, n.hugePages)
	if n.cgroup2 {
		// The OOM kill of a process kills its whole container (1.28).
		out.Unified = map[string]string{"memory.oom.group": "1"}
		if n.policy != SwapOfRuntime {
			out.Unified[memorySwapMax] = strconv.FormatInt(n.policy.swapOf(pod, d, n), 10)
		}
		if n.qos != nil {
			maps.Copy(out.Unified, n.qos.unifiedMemory(podresources.QOS(pod), d, n))
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
			wanted[podresources.PageSizeName(bytes)] = uint64(max(quantities.Value(quantity), 0))
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
	resources = linuxResources(podresources.OfPod(pod))
	if len(pod.Spec.Overhead) > 0 {
		r := v1.ResourceRequirements{Requests: pod.Spec.Overhead, Limits: pod.Spec.Overhead}
		overhead = linuxResources(podresources.Of(&r))
	}
	return resources, overhead
}
