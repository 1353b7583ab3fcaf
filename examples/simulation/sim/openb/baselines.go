// SPDX-License-Identifier: Apache-2.0

package openb

import (
	"math"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// dotProduct prefers a small product of the request and the room.
type dotProduct struct{}

func (dotProduct) Name() string { return string(DotProd) }
func (dotProduct) Local()       {}

func (dotProduct) Score(c *sim.Cycle, n *sim.Node) int64 {
	want := c.Pod.Shape
	cpu := float64(cpuLeft(n)) / wholeCPU * (float64(want.Requests.CPU) / wholeCPU)
	gpu := float64(n.GPULeft()) / wholeGPU * (float64(want.GPU.Total()) / wholeGPU)
	return int64(math.Floor(100 * (1 - (cpu+gpu)/2)))
}

// bestFit prefers little room after the placement. The paper maps the scores to 0 to 100, which
// does not change their order.
type bestFit struct{}

func (bestFit) Name() string { return string(BestFit) }
func (bestFit) Local()       {}

func (bestFit) Score(c *sim.Cycle, n *sim.Node) int64 {
	want := c.Pod.Shape
	cpu := float64(cpuLeft(n)-want.Requests.CPU) / wholeCPU
	gpu := float64(n.GPULeft()-want.GPU.Total()) / wholeGPU
	return int64(math.Floor(100 * (1 - cpu/2 - gpu/2)))
}

// clustering keeps pods with the same number of GPUs together.
type clustering struct{}

func (clustering) Name() string { return string(GpuClustering) }
func (clustering) Local()       {}

// gpuClass is 0 for a share, otherwise the number of GPUs.
func gpuClass(s *sim.Shape) int {
	if s.GPU.Milli < 1000 {
		return 0
	}
	return s.GPU.Count
}

func (clustering) Score(c *sim.Cycle, n *sim.Node) int64 {
	if c.Pod.Shape.GPU.Count == 0 {
		return 0
	}
	mine, others := false, false
	for _, p := range n.Pods {
		switch {
		case p.Shape.GPU.Count == 0:
		case gpuClass(p.Shape) == gpuClass(c.Pod.Shape):
			mine = true
		default:
			others = true
		}
	}
	fill := 25 * (wholeGPU - n.GPULeft()) / wholeGPU
	switch {
	case mine && !others:
		return 75 + fill
	case mine:
		return 50 + fill
	case !others:
		return 25 + fill
	}
	return fill
}

// packing prefers GPUs that are in use, then nodes that are in use, then small nodes.
type packing struct{}

func (packing) Name() string { return string(GpuPacking) }
func (packing) Local()       {}

func (packing) Score(c *sim.Cycle, n *sim.Node) int64 {
	want := &c.Pod.Shape.GPU
	if want.Count == 0 {
		return 0
	}
	free := 0
	tightest := int64(math.MaxInt64) // of the GPUs in use that fit
	for _, left := range n.GPUs {
		if left == 1000 {
			free++
		} else if left >= want.Milli {
			tightest = min(tightest, left)
		}
	}
	switch {
	case free == len(n.GPUs):
		return 33 - int64(len(n.GPUs))
	case tightest == math.MaxInt64:
		return max(33, 50-int64(want.Count))
	}
	return max(50, 100-tightest/100)
}
