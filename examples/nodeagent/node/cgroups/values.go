// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/internal/quantities"
)

// Unlimited is a limit that is removed.
const Unlimited = -1

// Values are the settings of a cgroup. Zero leaves a setting as it is.
type Values struct {
	CPUShares int64 // weight; 1024 is a CPU
	CPUQuota  int64 // µs in each period of 100 ms
	Memory    int64 // bytes
	PIDs      int64
	// MemoryMin is the memory in bytes that the kernel never reclaims. MemoryLow is the memory that
	// the kernel reclaims last. Unlimited removes the protection. Both need cgroup version 2.
	MemoryMin, MemoryLow int64
	// HugePages are limits in bytes by the size of the page, such as "2MB". The limit of a missing
	// size is not changed.
	HugePages map[string]int64
}

// Settings are the settings of all pods.
type Settings struct {
	// PodPIDs is the limit of processes of each pod. 0 or less: no limit.
	PodPIDs int64
	// PageSizes are the sizes of huge pages of the machine, such as "2MB". A pod that does not request
	// huge pages of a size cannot use them.
	PageSizes []string
	// ProtectsMemory protects requested memory, as memoryReservationPolicy TieredReservation of the
	// kubelet (1.37, KEP-2570) does: of guaranteed pods by MemoryMin, of burstable pods by MemoryLow.
	ProtectsMemory bool
}

// ForPod returns the values of a pod's cgroup. pod has the granted resources.
func ForPod(pod *v1.Pod, s Settings) Values {
	v := Values{CPUShares: podresources.MinShares, CPUQuota: Unlimited, Memory: Unlimited, PIDs: Unlimited}
	if s.PodPIDs > 0 {
		v.PIDs = s.PodPIDs
	}
	if len(s.PageSizes) > 0 {
		v.HugePages = hugePages(podresources.Requests(pod), s.PageSizes)
	}
	if podresources.QOS(pod) == v1.PodQOSBestEffort {
		return v
	}
	d := podresources.OfPod(pod).WithOverhead(pod.Spec.Overhead)
	v.CPUShares = podresources.Shares(d.CPURequest)
	if quota := podresources.Quota(d.CPULimit); quota > 0 {
		v.CPUQuota = quota
	}
	if d.MemoryLimit > 0 {
		v.Memory = d.MemoryLimit
	}
	switch {
	case !s.ProtectsMemory || d.MemoryRequest == 0:
	case podresources.QOS(pod) == v1.PodQOSGuaranteed:
		v.MemoryMin = d.MemoryRequest
	default:
		v.MemoryLow = d.MemoryRequest
	}
	return v
}

// hugePages returns the limit for each size of pages.
func hugePages(list v1.ResourceList, sizes []string) map[string]int64 {
	limits := make(map[string]int64, len(sizes))
	for _, size := range sizes {
		limits[size] = 0
	}
	for name, amount := range list {
		text, huge := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
		if !huge {
			continue
		}
		size, err := resource.ParseQuantity(text)
		if err != nil || size.Value() <= 0 {
			continue
		}
		if name := podresources.PageSizeName(size.Value()); hasSize(limits, name) {
			limits[name] = quantities.Value(amount)
		}
	}
	return limits
}

func hasSize(limits map[string]int64, size string) bool {
	_, known := limits[size]
	return known
}

// allPages is the limit of huge pages in a cgroup without a limit.
const allPages = 1 << 62

// requests are the sums over the pods of a class: cpu in thousandths, memory in bytes.
type requests struct{ milli, memory int64 }

// protected returns the value of MemoryMin or MemoryLow for a cgroup whose pods request the bytes.
func (s Settings) protected(bytes int64) int64 {
	if !s.ProtectsMemory || bytes == 0 {
		return Unlimited
	}
	return bytes
}

// forClass returns the values of a QoS class, from the requests of its pods.
func forClass(class v1.PodQOSClass, asked requests, s Settings) Values {
	v := Values{CPUShares: podresources.MinShares}
	if class == v1.PodQOSBurstable {
		v.CPUShares, v.MemoryLow = podresources.Shares(asked.milli), s.protected(asked.memory)
	}
	if len(s.PageSizes) > 0 {
		v.HugePages = map[string]int64{}
		for _, size := range s.PageSizes {
			v.HugePages[size] = allPages
		}
	}
	return v
}

// PIDs is the name of the process IDs of a node among its resources.
const PIDs v1.ResourceName = "pid"

// ForResources returns the values that limit a cgroup to the resources: the cgroup of all pods, or the
// cgroup of a reserved part of the node. The settings of missing resources are not changed. With
// compressible, the settings of memory and process IDs are not changed, either.
func ForResources(list v1.ResourceList, s Settings, compressible bool) Values {
	var v Values
	if cpu, ok := list[v1.ResourceCPU]; ok {
		v.CPUShares = podresources.Shares(quantities.Milli(cpu))
	}
	if compressible {
		return v
	}
	if memory, ok := list[v1.ResourceMemory]; ok {
		v.Memory = quantities.Value(memory)
	}
	if processes, ok := list[PIDs]; ok {
		v.PIDs = processes.Value()
	}
	if len(s.PageSizes) > 0 {
		limits := hugePages(list, s.PageSizes)
		for name := range limits {
			if limits[name] == 0 {
				delete(limits, name) // of a size that the list does not name
			}
		}
		if len(limits) > 0 {
			v.HugePages = limits
		}
	}
	return v
}

// widest returns the larger of each limit and weight. During a resize, a pod's cgroup has the widest
// values of the old and the new resources.
func widest(a, b Values) Values {
	w := Values{
		CPUShares: max(a.CPUShares, b.CPUShares),
		CPUQuota:  larger(a.CPUQuota, b.CPUQuota), Memory: larger(a.Memory, b.Memory), PIDs: larger(a.PIDs, b.PIDs),
		MemoryMin: max(a.MemoryMin, b.MemoryMin), MemoryLow: max(a.MemoryLow, b.MemoryLow),
		HugePages: map[string]int64{},
	}
	for _, limits := range []map[string]int64{a.HugePages, b.HugePages} {
		for size, limit := range limits {
			w.HugePages[size] = larger(w.HugePages[size], limit)
		}
	}
	if len(w.HugePages) == 0 {
		w.HugePages = nil
	}
	return w
}

// larger returns the larger limit.
func larger(a, b int64) int64 {
	if a == Unlimited || b == Unlimited {
		return Unlimited
	}
	return max(a, b)
}
