// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Ports refuses nodes on which a requested host port is taken (NodePorts).
type Ports struct{}

var portTaken = sim.NewStatus(sim.Unschedulable, "node(s) didn't have free ports for the requested pod ports")

// Name implements sim.Plugin.
func (Ports) Name() string { return "NodePorts" }

// Local implements sim.Local.
func (Ports) Local() {}

// PreFilter implements sim.PreFilter.
func (Ports) PreFilter(c *sim.Cycle) ([]string, *sim.Status) {
	if len(c.Pod.Shape.Ports) == 0 {
		return nil, sim.NewStatus(sim.Skip)
	}
	return nil, nil
}

// Filter implements sim.Filter.
func (Ports) Filter(c *sim.Cycle, n *sim.Node) *sim.Status {
	if !n.HasPorts() {
		return nil
	}
	for _, p := range n.Pods {
		if conflict(c.Pod.Shape, p.Shape) {
			return portTaken
		}
	}
	return nil
}

func conflict(a, b *sim.Shape) bool {
	return slices.ContainsFunc(a.Ports, func(want admission.HostPort) bool { return slices.ContainsFunc(b.Ports, want.Conflicts) })
}

// Hint implements sim.Hint: the end of a pod with a conflicting port helps.
func (Ports) Hint(p *sim.Pod, e sim.ClusterEvent) bool {
	return e.Kind == sim.NodeChanged || e.Kind == sim.PodGone && conflict(p.Shape, e.Pod.Shape)
}
