// SPDX-License-Identifier: Apache-2.0

package kube

import "github.com/keelson-dev/keelson/examples/simulation/sim"

// Profile returns the default profile of kube-scheduler 1.36, as far as a simulation has its objects:
// without volumes, resource claims and scheduling gates. The caller may change the result.
func Profile() sim.Profile {
	return sim.Profile{
		Name:      "kube",
		PreFilter: []sim.PreFilter{NodeAffinity{}, Ports{}, Spread{}, InterPodAffinity{}},
		Filter: []sim.Filter{
			Unschedulable{}, NodeName{}, Taints{}, NodeAffinity{}, Ports{}, Fit{}, Spread{}, InterPodAffinity{},
		},
		PostFilter: []sim.PostFilter{Preemption{}},
		Score: []sim.WeightedScore{
			{Score: Taints{}, Weight: 3}, {Score: NodeAffinity{}, Weight: 2}, {Score: LeastAllocated{}, Weight: 1},
			{Score: Spread{}, Weight: 2}, {Score: InterPodAffinity{}, Weight: 2}, {Score: Balanced{}, Weight: 1},
			{Score: ImageLocality{}, Weight: 1},
		},
		Sample: sim.SampleDefault,
	}
}

// MostAllocatedProfile returns Profile with MostAllocated instead of LeastAllocated: full nodes first.
func MostAllocatedProfile() sim.Profile {
	p := Profile()
	p.Name = "kube-most-allocated"
	p.Score[2] = sim.WeightedScore{Score: MostAllocated{}, Weight: 1}
	return p
}
