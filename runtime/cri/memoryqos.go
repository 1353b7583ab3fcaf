// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"os"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// MemoryQoS protects the memory that containers request, and slows those down
// that use much more, by what cgroup v2 has for it (KEP-2570; off in the kubelet,
// too).
type MemoryQoS struct {
	// ThrottlingFactor says where between its request and its limit a container is
	// slowed down: 0 would be the request, 1 is the limit. Defaults to 0.9.
	ThrottlingFactor float64
	// Allocatable stands in for the limit of a container without one, in bytes.
	// Defaults to the node's memory.
	Allocatable int64
}

// SwapPolicy is what containers may use of the node's swap.
type SwapPolicy string

// The policies, with the kubelet's words.
const (
	// SwapOfRuntime leaves it to the runtime: containerd gives none to a container
	// with a memory limit.
	SwapOfRuntime SwapPolicy = ""
	NoSwap        SwapPolicy = "NoSwap"
	// LimitedSwap gives to containers of burstable pods the part of the swap that
	// they request of the memory; none to a container whose request is its limit,
	// or that is part of a critical or static pod (KEP-2400).
	LimitedSwap SwapPolicy = "LimitedSwap"
)

// The files of cgroup v2 that are written here.
const (
	memoryMin     = "memory.min"
	memoryHigh    = "memory.high"
	memorySwapMax = "memory.swap.max"
	unlimited     = "max"
)

// criticalPriority is the lowest that critical pods have: that of
// system-cluster-critical.
const criticalPriority = 2_000_000_000

// unifiedMemory is what d asks for in terms of cgroup v2. A value that is not
// limited is there, too: it takes one from before away.
func (q *MemoryQoS) unifiedMemory(d demand, n node) map[string]string {
	out := map[string]string{memoryMin: strconv.FormatInt(d.memoryRequest, 10), memoryHigh: unlimited}
	if high := q.high(d, n); high > 0 {
		out[memoryHigh] = strconv.FormatInt(high, 10)
	}
	return out
}

// high is where a container is slowed down, in whole pages; 0: nowhere.
func (q *MemoryQoS) high(d demand, n node) int64 {
	if d.memoryRequest == d.memoryLimit {
		return 0
	}
	ceiling := d.memoryLimit
	if ceiling == 0 {
		ceiling = q.Allocatable
		if ceiling == 0 {
			ceiling = n.memory
		}
	}
	page := int64(os.Getpagesize())
	high := (d.memoryRequest + int64(q.ThrottlingFactor*float64(ceiling-d.memoryRequest))) / page * page
	if high <= d.memoryRequest {
		return 0 // it would slow down what is asked for
	}
	return high
}

// swapOf is how much swap a container may use, in bytes.
func (p SwapPolicy) swapOf(pod *v1.Pod, d demand, n node) int64 {
	switch {
	case p != LimitedSwap, isCritical(pod), podQOS(pod) != v1.PodQOSBurstable, d.memoryRequest == d.memoryLimit, n.memory <= 0:
		return 0
	}
	return int64(float64(d.memoryRequest) / float64(n.memory) * float64(n.swap))
}

// isCritical reports whether the node needs the pod: by its priority, or because
// it does not come from the API.
func isCritical(pod *v1.Pod) bool {
	source, known := pod.Annotations["kubernetes.io/config.source"]
	_, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]
	return known && source != "api" || mirror || pod.Spec.Priority != nil && *pod.Spec.Priority >= criticalPriority
}
