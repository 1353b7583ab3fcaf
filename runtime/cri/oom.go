// SPDX-License-Identifier: Apache-2.0

package cri

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/runtime"
)

// Values added to a process's badness in the kernel, as in the 1.36 kubelet.
const (
	oomGuaranteed = -997
	oomBestEffort = 1000
	// Burstable containers stay between guaranteed and best effort.
	oomBurstableMin = 1000 + oomGuaranteed
	oomBurstableMax = oomBestEffort - 1

	// nodeCritical is the lowest priority at which a pod is as hard to kill as a guaranteed pod:
	// the priority of system-node-critical.
	nodeCritical = 2_000_001_000
)

// oomScoreAdj returns the container's OOM score adjustment for a node with capacity bytes of
// memory. The more memory a burstable container requests, the later the kernel kills the container.
func oomScoreAdj(pod *v1.Pod, c *v1.Container, group runtime.Group, capacity int64) int64 {
	if pod.Spec.Priority != nil && *pod.Spec.Priority >= nodeCritical {
		return oomGuaranteed
	}
	switch podresources.QOS(pod) {
	case v1.PodQOSGuaranteed:
		return oomGuaranteed
	case v1.PodQOSBestEffort:
		return oomBestEffort
	}
	spare := spareRequest(pod)
	score := burstableScore(memoryRequest(c)+spare, capacity)
	if group != runtime.GroupInit || !podfacts.IsSidecar(c) || len(pod.Spec.Containers) == 0 {
		return score
	}
	// A sidecar is killed no earlier than the pod's first regular container.
	first := int64(oomBurstableMin)
	for i := range pod.Spec.Containers {
		first = max(first, burstableScore(memoryRequest(&pod.Spec.Containers[i])+spare, capacity))
	}
	return min(score, first)
}

func burstableScore(request, capacity int64) int64 {
	if capacity <= 0 || request >= capacity {
		return oomBurstableMin
	}
	score := 1000 - int64(1000*float64(max(request, 0))/float64(capacity))
	return min(max(score, oomBurstableMin), oomBurstableMax)
}

func memoryRequest(c *v1.Container) int64 { return podresources.Of(&c.Resources).MemoryRequest }

// spareRequest is each container's share of the pod-level request beyond the sum of the containers'
// requests.
func spareRequest(pod *v1.Pod) int64 {
	whole := podresources.Of(pod.Spec.Resources).MemoryRequest
	if whole == 0 {
		return 0
	}
	n := int64(0)
	for _, c := range lasting(pod) {
		whole -= memoryRequest(c)
		n++
	}
	if whole <= 0 || n == 0 {
		return 0
	}
	return whole / n
}

// lasting returns the containers running for the pod's whole life.
func lasting(pod *v1.Pod) []*v1.Container {
	var out []*v1.Container
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podfacts.IsSidecar(c) {
			out = append(out, c)
		}
	}
	for i := range pod.Spec.Containers {
		out = append(out, &pod.Spec.Containers[i])
	}
	return out
}

// parseQuantity reads "2Mi" as bytes.
func parseQuantity(s string) (int64, error) {
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return 0, err
	}
	return q.Value(), nil
}
