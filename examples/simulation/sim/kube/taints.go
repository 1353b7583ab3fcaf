// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Taints refuses nodes with untolerated taints, and prefers nodes with few untolerated taints of
// the effect PreferNoSchedule (TaintToleration).
type Taints struct{}

var untolerated = sim.NewStatus(sim.Unresolvable, "node(s) had untolerated taint(s)")

// Name implements sim.Plugin.
func (Taints) Name() string { return "TaintToleration" }

// Local implements sim.Local.
func (Taints) Local() {}

// Filter implements sim.Filter.
func (Taints) Filter(c *sim.Cycle, n *sim.Node) *sim.Status {
	for i := range n.Taints {
		hard := n.Taints[i].Effect == v1.TaintEffectNoSchedule || n.Taints[i].Effect == v1.TaintEffectNoExecute
		if hard && !tolerated(c, &n.Taints[i]) {
			return untolerated
		}
	}
	return nil
}

func tolerated(c *sim.Cycle, taint *v1.Taint) bool {
	return admission.Tolerates(c.Pod.Shape.Template, taint)
}

// Score implements sim.Score with the number of untolerated preferences.
func (Taints) Score(c *sim.Cycle, n *sim.Node) (count int64) {
	for i := range n.Taints {
		if n.Taints[i].Effect == v1.TaintEffectPreferNoSchedule && !tolerated(c, &n.Taints[i]) {
			count++
		}
	}
	return count
}

// Normalize implements sim.Normalizer: no untolerated taint is worth 100.
func (Taints) Normalize(_ *sim.Cycle, scores []int64) {
	most := slices.Max(scores)
	for i := range scores {
		if most == 0 {
			scores[i] = 100
		} else {
			scores[i] = 100 - 100*scores[i]/most
		}
	}
}

// Hint implements sim.Hint: only a node that has changed helps.
func (Taints) Hint(_ *sim.Pod, e sim.ClusterEvent) bool { return e.Kind == sim.NodeChanged }

// Unschedulable refuses nodes with spec.unschedulable, unless the pod tolerates its taint
// (NodeUnschedulable).
type Unschedulable struct{}

var cordoned = sim.NewStatus(sim.Unresolvable, "node(s) were unschedulable")

// Name implements sim.Plugin.
func (Unschedulable) Name() string { return "NodeUnschedulable" }

// Local implements sim.Local.
func (Unschedulable) Local() {}

// Filter implements sim.Filter.
func (Unschedulable) Filter(c *sim.Cycle, n *sim.Node) *sim.Status {
	if n.Unschedulable && !tolerated(c, &v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}) {
		return cordoned
	}
	return nil
}

// Hint implements sim.Hint.
func (Unschedulable) Hint(p *sim.Pod, e sim.ClusterEvent) bool { return Taints{}.Hint(p, e) }
