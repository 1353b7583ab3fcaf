// SPDX-License-Identifier: Apache-2.0

package kube

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Stranded returns a gauge: the share of a free resource that is on nodes without room for a pod of
// the shape, by Fit. The resource is "cpu", "memory", sim.LabelGPUs or an extended resource. Lost
// nodes do not count.
func Stranded(resource v1.ResourceName, shape *sim.Shape) sim.Gauge {
	name := string(resource)
	if resource == sim.LabelGPUs {
		name = "gpu"
	}
	cycle := &sim.Cycle{Pod: &sim.Pod{Shape: shape}}
	return sim.Gauge{Name: "stranded " + name, Unit: "%", Value: func(s *sim.Snapshot) float64 {
		stranded, all := int64(0), int64(0)
		for _, n := range s.Nodes() {
			if !n.Ready {
				continue
			}
			free := n.Allocatable.Of(resource) - n.Requested.Of(resource)
			if resource == sim.LabelGPUs {
				free = n.GPULeft() // in thousandths
			}
			all += free
			if (Fit{}).Filter(cycle, n) != nil {
				stranded += free
			}
		}
		if all == 0 {
			return 0
		}
		return 100 * float64(stranded) / float64(all)
	}}
}
