// SPDX-License-Identifier: Apache-2.0

package kube

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Fit checks the number of pods and every requested resource (NodeResourcesFit of kube-scheduler
// 1.36), and the GPUs of sim.GPURequest. A request larger than the allocatable amount of the node is
// Unresolvable.
type Fit struct{}

// Name implements sim.Plugin.
func (Fit) Name() string { return "NodeResourcesFit" }

// Local implements sim.Local.
func (Fit) Local() {}

// The statuses are shared: a refusal allocates nothing.
var (
	tooManyPods  = sim.NewStatus(sim.Unschedulable, "Too many pods")
	shortCPU     = short("Insufficient cpu")
	shortMemory  = short("Insufficient memory")
	shortStorage = short("Insufficient ephemeral-storage")
	shortGPU     = short("Insufficient gpu")
	wrongModel   = sim.NewStatus(sim.Unresolvable, "node(s) have another GPU model")
)

// shortage are the statuses of a missing resource.
type shortage struct{ now, ever *sim.Status }

func short(reason string) shortage {
	return shortage{sim.NewStatus(sim.Unschedulable, reason), sim.NewStatus(sim.Unresolvable, reason)}
}

// of returns the status for a request.
func (s *shortage) of(asked, allocatable, requested int64) *sim.Status {
	switch {
	case asked <= 0 || asked <= allocatable-requested:
		return nil
	case asked > allocatable:
		return s.ever
	}
	return s.now
}

// Filter implements sim.Filter.
func (Fit) Filter(c *sim.Cycle, n *sim.Node) *sim.Status {
	if len(n.Pods)+1 > n.MaxPods {
		return tooManyPods
	}
	want := &c.Pod.Shape.Requests
	if s := shortCPU.of(want.CPU, n.Allocatable.CPU, n.Requested.CPU); s != nil {
		return s
	}
	if s := shortMemory.of(want.Memory, n.Allocatable.Memory, n.Requested.Memory); s != nil {
		return s
	}
	if s := shortStorage.of(want.Ephemeral, n.Allocatable.Ephemeral, n.Requested.Ephemeral); s != nil {
		return s
	}
	for _, r := range want.Scalars {
		lack := shortage{}
		if r.Value > n.Allocatable.Of(r.Name)-n.Requested.Of(r.Name) {
			lack = short("Insufficient " + string(r.Name))
		}
		if s := lack.of(r.Value, n.Allocatable.Of(r.Name), n.Requested.Of(r.Name)); s != nil {
			return s
		}
	}
	return gpus(&c.Pod.Shape.GPU, n)
}

// gpus checks the request for single devices.
func gpus(want *sim.GPURequest, n *sim.Node) *sim.Status {
	if want.Count == 0 {
		return nil
	}
	if !want.Accepts(n.Model) {
		return wrongModel
	}
	fitting := 0
	for _, left := range n.GPUs {
		if left >= want.Milli {
			fitting++
		}
	}
	switch {
	case fitting >= want.Count:
		return nil
	case len(n.GPUs) < want.Count:
		return shortGPU.ever
	}
	return shortGPU.now
}

// Hint implements sim.Hint: the end of a pod helps, and a node that came back.
func (Fit) Hint(_ *sim.Pod, e sim.ClusterEvent) bool { return e.Kind != sim.PodPlaced }

// resources that scores weigh, with the weight 1 each.
var scored = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}

// LeastAllocated prefers nodes with much room for cpu and memory after the placement.
type LeastAllocated struct{}

// Name implements sim.Plugin.
func (LeastAllocated) Name() string { return "NodeResourcesFit" }

// Local implements sim.Local.
func (LeastAllocated) Local() {}

// Score implements sim.Score.
func (LeastAllocated) Score(c *sim.Cycle, n *sim.Node) int64 {
	return meanScore(c, n, func(asked, capacity int64) int64 {
		if asked > capacity {
			return 0
		}
		return (capacity - asked) * 100 / capacity
	})
}

// MostAllocated prefers full nodes.
type MostAllocated struct{}

// Name implements sim.Plugin.
func (MostAllocated) Name() string { return "NodeResourcesFit" }

// Local implements sim.Local.
func (MostAllocated) Local() {}

// Score implements sim.Score.
func (MostAllocated) Score(c *sim.Cycle, n *sim.Node) int64 {
	return meanScore(c, n, func(asked, capacity int64) int64 { return min(asked, capacity) * 100 / capacity })
}

// meanScore averages a score over the resources that the node has.
func meanScore(c *sim.Cycle, n *sim.Node, score func(asked, capacity int64) int64) int64 {
	sum, weights := int64(0), int64(0)
	for _, name := range scored {
		capacity := n.Allocatable.Of(name)
		if capacity == 0 {
			continue
		}
		sum += score(n.NonZero.Of(name)+c.Pod.Shape.NonZero.Of(name), capacity)
		weights++
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}
