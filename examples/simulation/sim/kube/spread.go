// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"math"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Spread honours topologySpreadConstraints (PodTopologySpread). A simulation has no Services, so the
// default constraints of kube-scheduler select no pod and are left out.
type Spread struct{}

var (
	skewed     = sim.NewStatus(sim.Unschedulable, "node(s) didn't match pod topology spread constraints")
	missingKey = sim.NewStatus(sim.Unresolvable, "node(s) didn't match pod topology spread constraints (missing required label)")
)

// Name implements sim.Plugin.
func (Spread) Name() string { return "PodTopologySpread" }

// constraint is a constraint of the pod with the pods counted so far.
type constraint struct {
	*v1.TopologySpreadConstraint
	selector labels.Selector
	self     int
	counts   map[string]int // pods by value of the topology key
	weight   float64
}

// constraintsOf returns the constraints of a pod with the given action.
func constraintsOf(pod *v1.Pod, action v1.UnsatisfiableConstraintAction) []*constraint {
	var out []*constraint
	for i := range pod.Spec.TopologySpreadConstraints {
		t := &pod.Spec.TopologySpreadConstraints[i]
		if t.WhenUnsatisfiable != action {
			continue
		}
		selector := selectorOf(t.LabelSelector)
		for _, key := range t.MatchLabelKeys {
			if value, has := pod.Labels[key]; has && !selector.Empty() {
				also := labels.SelectorFromSet(labels.Set{key: value})
				requirements, _ := also.Requirements()
				selector = selector.Add(requirements...)
			}
		}
		k := &constraint{TopologySpreadConstraint: t, selector: selector, counts: map[string]int{}}
		if selector.Matches(labels.Set(pod.Labels)) {
			k.self = 1
		}
		out = append(out, k)
	}
	return out
}

// selectorOf returns a selector that matches nothing for nil and for an invalid selector.
func selectorOf(s *metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// value returns the node's value of the topology key.
func (k *constraint) value(n *sim.Node) (string, bool) { return topology(n, k.TopologyKey) }

// topology returns the node's value of a topology key. A node without a hostname label has its name.
func topology(n *sim.Node, key string) (string, bool) {
	value, has := n.Facts.Labels[key]
	if !has && key == v1.LabelHostname {
		return n.Name, true
	}
	return value, has
}

// includes reports whether the node counts, by the inclusion policies of the constraint.
func (k *constraint) includes(c *sim.Cycle, n *sim.Node) bool {
	if (k.NodeAffinityPolicy == nil || *k.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor) && !admission.MatchesNode(c.Pod.Shape.Template, n.Facts) {
		return false
	}
	honorTaints := k.NodeTaintsPolicy != nil && *k.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor
	return !honorTaints || Taints{}.Filter(c, n) == nil
}

// matching returns the number of the node's pods that the selector matches.
func (k *constraint) matching(c *sim.Cycle, n *sim.Node) (count int) {
	if k.selector.Empty() {
		return 0
	}
	for _, p := range n.Pods {
		t := p.Shape.Template
		if !p.Evicting() && t.Namespace == c.Pod.Shape.Template.Namespace && k.selector.Matches(labels.Set(t.Labels)) {
			count++
		}
	}
	return count
}

// hasAll reports whether the node has the topology keys of all constraints.
func hasAll(all []*constraint, n *sim.Node) bool {
	for _, k := range all {
		if _, has := k.value(n); !has {
			return false
		}
	}
	return true
}

// PreFilter implements sim.PreFilter: it counts the matching pods of each domain.
func (s Spread) PreFilter(c *sim.Cycle) ([]string, *sim.Status) {
	hard := constraintsOf(c.Pod.Shape.Template, v1.DoNotSchedule)
	if len(hard) == 0 {
		return nil, sim.NewStatus(sim.Skip)
	}
	countDomains(c, hard)
	c.SetState(s.Name(), hard)
	return nil, nil
}

// countDomains counts the matching pods of each domain of all constraints.
func countDomains(c *sim.Cycle, all []*constraint) {
	for _, n := range c.Snapshot.Nodes() {
		if !hasAll(all, n) {
			continue
		}
		for _, k := range all {
			if k.includes(c, n) {
				value, _ := k.value(n)
				k.counts[value] += k.matching(c, n)
			}
		}
	}
}

// Filter implements sim.Filter.
func (s Spread) Filter(c *sim.Cycle, n *sim.Node) *sim.Status {
	hard, _ := c.State(s.Name()).([]*constraint)
	for _, k := range hard {
		value, has := k.value(n)
		if !has {
			return missingKey
		}
		if k.counts[value]+k.self-k.least() > int(k.MaxSkew) {
			return skewed
		}
	}
	return nil
}

// least returns the number of pods of the emptiest domain, or 0 with fewer domains than minDomains.
func (k *constraint) least() int {
	if k.MinDomains != nil && len(k.counts) < int(*k.MinDomains) {
		return 0
	}
	least := math.MaxInt
	for _, n := range k.counts {
		least = min(least, n)
	}
	if least == math.MaxInt {
		return 0
	}
	return least
}

// softState is the state of scoring.
type softState struct {
	soft    []*constraint
	ignored []bool // by position in the list of feasible nodes
}

// PreScore implements sim.PreScore.
func (s Spread) PreScore(c *sim.Cycle, feasible []*sim.Node) *sim.Status {
	soft := constraintsOf(c.Pod.Shape.Template, v1.ScheduleAnyway)
	if len(soft) == 0 {
		return sim.NewStatus(sim.Skip)
	}
	state := &softState{soft: soft, ignored: make([]bool, len(feasible))}
	for _, k := range soft {
		values := map[string]bool{}
		for i, n := range feasible {
			if state.ignored[i] = !hasAll(soft, n); !state.ignored[i] {
				value, _ := k.value(n)
				values[value] = true
			}
		}
		k.weight = math.Log(float64(len(values) + 2))
	}
	countDomains(c, soft)
	c.SetState(s.Name()+"/score", state)
	return nil
}

// Score implements sim.Score: fewer pods in the domain are better.
func (s Spread) Score(c *sim.Cycle, n *sim.Node) int64 {
	state, _ := c.State(s.Name() + "/score").(*softState)
	sum := 0.0
	for _, k := range state.soft {
		if value, has := k.value(n); has {
			sum += float64(k.counts[value])*k.weight + float64(k.MaxSkew-1)
		}
	}
	return int64(math.Round(sum))
}

// Normalize implements sim.Normalizer. Ignored nodes get 0.
func (s Spread) Normalize(c *sim.Cycle, scores []int64) {
	state, _ := c.State(s.Name() + "/score").(*softState)
	least, most := int64(math.MaxInt64), int64(0)
	for i, score := range scores {
		if !state.ignored[i] {
			least, most = min(least, score), max(most, score)
		}
	}
	for i := range scores {
		switch {
		case state.ignored[i]:
			scores[i] = 0
		case most == 0:
			scores[i] = 100
		default:
			scores[i] = 100 * (most + least - scores[i]) / most
		}
	}
}

// Hint implements sim.Hint: a pod that comes or goes changes the domains.
func (Spread) Hint(p *sim.Pod, e sim.ClusterEvent) bool {
	return e.Pod == nil || e.Pod.Shape.Template.Namespace == p.Shape.Template.Namespace
}
