// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// NodeAffinity honours spec.nodeSelector and node affinity.
type NodeAffinity struct{}

var otherNodes = sim.NewStatus(sim.Unresolvable, "node(s) didn't match Pod's node affinity/selector")

// Name implements sim.Plugin.
func (NodeAffinity) Name() string { return "NodeAffinity" }

// Local implements sim.Local.
func (NodeAffinity) Local() {}

// PreFilter implements sim.PreFilter. If each required term selects nodes by name, the result has these
// names.
func (NodeAffinity) PreFilter(c *sim.Cycle) ([]string, *sim.Status) {
	spec := &c.Pod.Shape.Template.Spec
	required := requiredTerms(spec)
	if len(spec.NodeSelector) == 0 && required == nil {
		return nil, sim.NewStatus(sim.Skip)
	}
	if len(required) == 0 {
		return nil, nil
	}
	names := []string{}
	for _, term := range required {
		of, named := namesOf(&term)
		if !named {
			return nil, nil
		}
		for _, name := range of {
			if c.Snapshot.Node(name) != nil && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil, otherNodes
	}
	return names, nil
}

// requiredTerms returns the terms of which a node must match one; nil: no requirement.
func requiredTerms(spec *v1.PodSpec) []v1.NodeSelectorTerm {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return nil
	}
	return required.NodeSelectorTerms
}

// namesOf returns the nodes that a term names; false if the term has no requirement on the name.
func namesOf(term *v1.NodeSelectorTerm) (names []string, named bool) {
	for _, r := range term.MatchFields {
		if r.Key != "metadata.name" || r.Operator != v1.NodeSelectorOpIn {
			continue
		}
		if named {
			names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(r.Values, name) })
		} else {
			names, named = slices.Clone(r.Values), true
		}
	}
	return names, named
}

// Filter implements sim.Filter.
func (NodeAffinity) Filter(c *sim.Cycle, n *sim.Node) *sim.Status {
	if !admission.MatchesNode(c.Pod.Shape.Template, n.Facts) {
		return otherNodes
	}
	return nil
}

// Applies implements sim.Applier.
func (NodeAffinity) Applies(s *sim.Shape) bool { return len(preferredTerms(s)) > 0 }

func preferredTerms(s *sim.Shape) []v1.PreferredSchedulingTerm {
	a := s.Template.Spec.Affinity
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	return a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
}

// Score implements sim.Score with the sum of the weights of the matching terms.
func (NodeAffinity) Score(c *sim.Cycle, n *sim.Node) (sum int64) {
	for _, term := range preferredTerms(c.Pod.Shape) {
		if admission.MatchesTerm(&term.Preference, n.Facts) {
			sum += int64(term.Weight)
		}
	}
	return sum
}

// Normalize implements sim.Normalizer.
func (NodeAffinity) Normalize(_ *sim.Cycle, scores []int64) { proportional(scores) }

// proportional maps the largest score to 100.
func proportional(scores []int64) {
	most := slices.Max(scores)
	for i := range scores {
		if most > 0 {
			scores[i] = 100 * scores[i] / most
		}
	}
}

// Hint implements sim.Hint.
func (NodeAffinity) Hint(p *sim.Pod, e sim.ClusterEvent) bool { return Taints{}.Hint(p, e) }

// NodeName refuses all nodes but that of spec.nodeName.
type NodeName struct{}

var otherName = sim.NewStatus(sim.Unresolvable, "node(s) didn't match the requested node name")

// Name implements sim.Plugin.
func (NodeName) Name() string { return "NodeName" }

// Local implements sim.Local.
func (NodeName) Local() {}

// Filter implements sim.Filter.
func (NodeName) Filter(c *sim.Cycle, n *sim.Node) *sim.Status {
	if name := c.Pod.Shape.Template.Spec.NodeName; name != "" && name != n.Name {
		return otherName
	}
	return nil
}

// Hint implements sim.Hint.
func (NodeName) Hint(p *sim.Pod, e sim.ClusterEvent) bool { return Taints{}.Hint(p, e) }
