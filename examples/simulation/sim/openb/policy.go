// SPDX-License-Identifier: Apache-2.0

package openb

import (
	"fmt"
	"strings"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
)

// Policy is the name of a policy of the paper.
type Policy string

// The policies.
const (
	Random        Policy = "Random"
	DotProd       Policy = "DotProd"
	GpuClustering Policy = "GpuClustering"
	GpuPacking    Policy = "GpuPacking"
	BestFit       Policy = "BestFit"
	FGD           Policy = "FGD"
)

// Policies are all policies, in the order of the paper's table.
func Policies() []Policy {
	return []Policy{Random, DotProd, GpuClustering, GpuPacking, BestFit, FGD}
}

// ParsePolicy returns the policy with a name, without regard to case.
func ParsePolicy(name string) (Policy, error) {
	for _, p := range Policies() {
		if strings.EqualFold(string(p), name) {
			return p, nil
		}
	}
	return "", fmt.Errorf("openb: no policy is named %q; the policies are %v", name, Policies())
}

// Profile returns the scheduler of a policy. pods are the pods of the trace. The policy FGD derives
// typical pods from the trace.
func (p Policy) Profile(pods []Pod) (sim.Profile, error) {
	profile := sim.Profile{Name: string(p), Filter: []sim.Filter{kube.Taints{}, kube.Fit{}}, Pick: sim.FirstBest}
	scored := func(s sim.Score) (sim.Profile, error) {
		profile.Score = []sim.WeightedScore{{Score: s}}
		return profile, nil
	}
	switch p {
	case Random:
		profile.Pick, profile.Devices = sim.AnyFeasible, anyDevice
		return profile, nil
	case DotProd:
		return scored(dotProduct{})
	case GpuClustering:
		return scored(clustering{})
	case GpuPacking:
		return scored(packing{})
	case BestFit:
		return scored(bestFit{})
	case FGD:
		typical := TypicalPods(pods)
		profile.Devices = typical.devices
		return scored(typical)
	}
	return sim.Profile{}, fmt.Errorf("openb: no policy is named %q", p)
}

// anyDevice chooses the GPU of a share by chance.
func anyDevice(c *sim.Cycle, n *sim.Node) []int {
	want := &c.Pod.Shape.GPU
	if want.Milli == 1000 || want.Count == 0 {
		return sim.Tightest(c, n)
	}
	var fitting []int
	for i, left := range n.GPUs {
		if left >= want.Milli {
			fitting = append(fitting, i)
		}
	}
	return []int{fitting[c.Rand.IntN(len(fitting))]}
}

// The size of the largest node, to which scores relate.
const (
	wholeCPU = 128000
	wholeGPU = 8000
)

// cpuLeft returns the thousandths of cores that no pod of the node has requested.
func cpuLeft(n *sim.Node) int64 { return n.Allocatable.CPU - n.Requested.CPU }
