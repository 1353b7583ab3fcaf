// SPDX-License-Identifier: Apache-2.0

// Package podresources computes the requests and limits of whole pods, their cpu and memory in the
// units of the kernel, and their QoS class. The rules are those of the kubelet (1.36).
package podresources

import (
	"cmp"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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

// The smallest cpu values that a kernel accepts, in thousandths: two shares, and minQuota. A container
// with a smaller value reads back as the smallest value.
const (
	LeastCPURequest = 2
	LeastCPULimit   = 10
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

// Stated returns the amounts of r without defaults. A negative amount counts as unset.
func Stated(r *v1.ResourceRequirements) Demand {
	cpu := func(list v1.ResourceList) int64 { return max(quantities.Milli(list[v1.ResourceCPU]), 0) }
	memory := func(list v1.ResourceList) int64 { return max(quantities.Value(list[v1.ResourceMemory]), 0) }
	return Demand{cpu(r.Requests), cpu(r.Limits), memory(r.Requests), memory(r.Limits)}
}

// Of returns the demand of a container, or of the pod-level resources. r may be nil.
func Of(r *v1.ResourceRequirements) Demand {
	if r == nil {
		return Demand{}
	}
	d := Stated(r)
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

// OfContainer returns the demand of c in pod. If the container has no limit, the limit of the whole pod
// applies (KEP-2837).
func OfContainer(pod *v1.Pod, c *v1.Container) Demand {
	d, whole := Of(&c.Resources), Of(pod.Spec.Resources)
	d.CPULimit, d.MemoryLimit = cmp.Or(d.CPULimit, whole.CPULimit), cmp.Or(d.MemoryLimit, whole.MemoryLimit)
	return d
}

// OfPod sums up a pod, see Peak. A container without a limit makes the pod unlimited. Pod-level
// resources override the sum. The overhead is not included.
func OfPod(pod *v1.Pod) Demand {
	limits := Peak(&pod.Spec, limitsOf)
	for c := range podfacts.Containers(&pod.Spec) {
		maps.DeleteFunc(limits, func(name v1.ResourceName, _ resource.Quantity) bool {
			limit := c.Resources.Limits[name]
			return limit.IsZero()
		})
	}
	return Of(pod.Spec.Resources).orElse(Of(&v1.ResourceRequirements{Requests: Peak(&pod.Spec, requestsOf), Limits: limits}))
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

// orElse fills the unset fields of d from e.
func (d Demand) orElse(e Demand) Demand {
	return Demand{
		cmp.Or(d.CPURequest, e.CPURequest), cmp.Or(d.CPULimit, e.CPULimit),
		cmp.Or(d.MemoryRequest, e.MemoryRequest), cmp.Or(d.MemoryLimit, e.MemoryLimit),
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
