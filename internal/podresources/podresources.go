// SPDX-License-Identifier: Apache-2.0

// Package podresources computes the cpu and memory of containers and whole pods in the units of the
// kernel, and the QoS class of pods. The rules are those of the kubelet (1.36).
package podresources

import (
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/quantities"
)

// The kernel's bounds and the kubelet's constants for CPU time.
const (
	MinShares    = 2
	MaxShares    = 262144
	SharesPerCPU = 1024
	QuotaPeriod  = 100_000 // µs
	minQuota     = 1000    // µs
)

// Shares returns the weight of a request of so many thousandths of a CPU.
func Shares(milli int64) int64 {
	if milli > MaxShares {
		return MaxShares // avoids an overflow
	}
	return min(max(milli*SharesPerCPU/1000, MinShares), MaxShares)
}

// Quota returns the µs of each period that a limit of so many thousandths of a CPU allows; 0: no
// limit.
func Quota(milli int64) int64 {
	switch {
	case milli <= 0:
		return 0
	case milli > 1<<40: // more than a billion CPUs
		return 0
	}
	return max(milli*QuotaPeriod/1000, minQuota)
}

// Demand is the resources of a container or pod; 0 means unset.
type Demand struct {
	CPURequest, CPULimit       int64 // thousandths
	MemoryRequest, MemoryLimit int64 // bytes
}

// Of returns the demand of a container, or of the pod-level resources. r may be nil.
func Of(r *v1.ResourceRequirements) Demand {
	if r == nil {
		return Demand{}
	}
	d := Demand{
		CPURequest:    quantities.Milli(*r.Requests.Cpu()),
		CPULimit:      quantities.Milli(*r.Limits.Cpu()),
		MemoryRequest: quantities.Value(*r.Requests.Memory()),
		MemoryLimit:   quantities.Value(*r.Limits.Memory()),
	}
	// A limit without a request is a request, too; API defaulting adds the request, but a manifest
	// from a file may lack the default.
	if _, ok := r.Requests[v1.ResourceCPU]; !ok {
		d.CPURequest = d.CPULimit
	}
	if _, ok := r.Requests[v1.ResourceMemory]; !ok {
		d.MemoryRequest = d.MemoryLimit
	}
	return d
}

// OfPod sums up a pod. Regular containers and sidecars run together; each plain init container
// runs with the sidecars before it. A container without a limit makes the pod unlimited. Pod-level
// resources override the sum. The overhead is not included.
func OfPod(pod *v1.Pod) Demand {
	var together, peak Demand
	unlimited := Demand{}
	mark := func(d Demand) {
		if d.CPULimit == 0 {
			unlimited.CPULimit = 1
		}
		if d.MemoryLimit == 0 {
			unlimited.MemoryLimit = 1
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		d := Of(&c.Resources)
		mark(d)
		if podfacts.IsSidecar(c) {
			together = together.plus(d)
			peak = peak.or(together)
			continue
		}
		peak = peak.or(together.plus(d))
	}
	for i := range pod.Spec.Containers {
		d := Of(&pod.Spec.Containers[i].Resources)
		mark(d)
		together = together.plus(d)
	}
	sum := peak.or(together)
	if unlimited.CPULimit != 0 {
		sum.CPULimit = 0
	}
	if unlimited.MemoryLimit != 0 {
		sum.MemoryLimit = 0
	}
	return Of(pod.Spec.Resources).orElse(sum)
}

// WithOverhead adds the overhead of a RuntimeClass to the requests, and to the limits that are set.
func (d Demand) WithOverhead(overhead v1.ResourceList) Demand {
	more := Of(&v1.ResourceRequirements{Requests: overhead, Limits: overhead})
	if d.CPULimit == 0 {
		more.CPULimit = 0
	}
	if d.MemoryLimit == 0 {
		more.MemoryLimit = 0
	}
	return d.plus(more)
}

func (d Demand) plus(e Demand) Demand {
	return Demand{
		CPURequest:    quantities.Sum(d.CPURequest, e.CPURequest),
		CPULimit:      quantities.Sum(d.CPULimit, e.CPULimit),
		MemoryRequest: quantities.Sum(d.MemoryRequest, e.MemoryRequest),
		MemoryLimit:   quantities.Sum(d.MemoryLimit, e.MemoryLimit),
	}
}

// or is the larger of each.
func (d Demand) or(e Demand) Demand {
	return Demand{max(d.CPURequest, e.CPURequest), max(d.CPULimit, e.CPULimit), max(d.MemoryRequest, e.MemoryRequest), max(d.MemoryLimit, e.MemoryLimit)}
}

// orElse fills the unset fields of d from e.
func (d Demand) orElse(e Demand) Demand {
	pick := func(a, b int64) int64 {
		if a != 0 {
			return a
		}
		return b
	}
	return Demand{pick(d.CPURequest, e.CPURequest), pick(d.CPULimit, e.CPULimit), pick(d.MemoryRequest, e.MemoryRequest), pick(d.MemoryLimit, e.MemoryLimit)}
}

// QOS returns the pod's class by the API's rule. Best effort: no container has a request or limit of
// CPU or memory. Guaranteed: every container, or the pod-level resources, have limits of both equal
// to the requests. Burstable: all other pods.
func QOS(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	if pod.Spec.Resources != nil {
		return qosOf(Of(pod.Spec.Resources))
	}
	var asks []Demand
	for i := range pod.Spec.InitContainers {
		asks = append(asks, Of(&pod.Spec.InitContainers[i].Resources))
	}
	for i := range pod.Spec.Containers {
		asks = append(asks, Of(&pod.Spec.Containers[i].Resources))
	}
	return qosOf(asks...)
}

func qosOf(asks ...Demand) v1.PodQOSClass {
	nothing, all := true, len(asks) > 0
	for _, d := range asks {
		nothing = nothing && d == Demand{}
		all = all && d.CPULimit > 0 && d.MemoryLimit > 0 && d.CPULimit == d.CPURequest && d.MemoryLimit == d.MemoryRequest
	}
	switch {
	case nothing:
		return v1.PodQOSBestEffort
	case all:
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}

// PageSizeName formats the size of a huge page in the largest unit without a remainder, as the kernel
// and the CRI do: "2MB".
func PageSizeName(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	i := 0
	for bytes%1024 == 0 && i < len(units)-1 {
		bytes /= 1024
		i++
	}
	return strconv.FormatInt(bytes, 10) + units[i]
}
