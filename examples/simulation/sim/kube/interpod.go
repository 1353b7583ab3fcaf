// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// InterPodAffinity honours pod affinity and anti-affinity. Namespaces have no labels in a
// simulation: a namespaceSelector that is empty selects all namespaces, any other selects none.
type InterPodAffinity struct {
	// HardWeight is the score of a required affinity term of an existing pod that matches the pod.
	// Negative: 0. Defaults to 1.
	HardWeight int64
}

var (
	noAffinity  = sim.NewStatus(sim.Unresolvable, "node(s) didn't match pod affinity rules")
	antiRules   = sim.NewStatus(sim.Unschedulable, "node(s) didn't match pod anti-affinity rules")
	antiOfOther = sim.NewStatus(sim.Unschedulable, "node(s) didn't satisfy existing pods anti-affinity rules")
)

// Name implements sim.Plugin.
func (InterPodAffinity) Name() string { return "InterPodAffinity" }

// term is an affinity term of a pod.
type term struct {
	key        string
	selector   labels.Selector
	namespaces []string // none: all
	weight     int64
}

// termOf reads a term of a pod, with matchLabelKeys and mismatchLabelKeys as the API server merges
// them.
func termOf(pod *v1.Pod, t *v1.PodAffinityTerm, weight int64) term {
	out := term{key: t.TopologyKey, selector: selectorOf(t.LabelSelector), weight: weight}
	if t.LabelSelector != nil && len(t.MatchLabelKeys)+len(t.MismatchLabelKeys) > 0 {
		merged := t.LabelSelector.DeepCopy()
		for _, key := range t.MatchLabelKeys {
			if value, has := pod.Labels[key]; has {
				merged.MatchExpressions = append(merged.MatchExpressions, requirement(key, "In", value))
			}
		}
		for _, key := range t.MismatchLabelKeys {
			if value, has := pod.Labels[key]; has {
				merged.MatchExpressions = append(merged.MatchExpressions, requirement(key, "NotIn", value))
			}
		}
		out.selector = selectorOf(merged)
	}
	all := t.NamespaceSelector != nil && len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) == 0
	if !all {
		out.namespaces = slices.Clone(t.Namespaces)
		if len(out.namespaces) == 0 {
			out.namespaces = []string{pod.Namespace}
		}
	}
	return out
}

// matches reports whether the term selects the pod.
func (t *term) matches(pod *v1.Pod) bool {
	return (len(t.namespaces) == 0 || slices.Contains(t.namespaces, pod.Namespace)) && t.selector.Matches(labels.Set(pod.Labels))
}

// kind is one of the four lists of terms.
type kind uint8

const (
	requiredAffinity kind = iota
	requiredAnti
	preferredAffinity
	preferredAnti
)

// termsOf returns the terms of a kind.
func termsOf(pod *v1.Pod, k kind) (out []term) {
	a := pod.Spec.Affinity
	if a == nil {
		return nil
	}
	var required []v1.PodAffinityTerm
	var preferred []v1.WeightedPodAffinityTerm
	switch {
	case k == requiredAffinity && a.PodAffinity != nil:
		required = a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	case k == requiredAnti && a.PodAntiAffinity != nil:
		required = a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	case k == preferredAffinity && a.PodAffinity != nil:
		preferred = a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	case k == preferredAnti && a.PodAntiAffinity != nil:
		preferred = a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	for i := range required {
		out = append(out, termOf(pod, &required[i], 1))
	}
	for i := range preferred {
		out = append(out, termOf(pod, &preferred[i].PodAffinityTerm, int64(preferred[i].Weight)))
	}
	return out
}

// domain is a value of a topology key.
type domain struct{ key, value string }

// counted are the numbers of pods by domain.
type counted struct {
	affinity, anti         []term
	byAnti                 []map[domain]int // by term
	allAffinity            map[domain]int   // pods that match all affinity terms, by the domains of the terms
	byExisting             map[domain]int   // required anti-affinity terms of other pods that match
	someMatch, selfMatches bool
}

// PreFilter implements sim.PreFilter.
func (p InterPodAffinity) PreFilter(c *sim.Cycle) ([]string, *sim.Status) {
	pod := c.Pod.Shape.Template
	s := &counted{affinity: termsOf(pod, requiredAffinity), anti: termsOf(pod, requiredAnti), allAffinity: map[domain]int{}, byExisting: map[domain]int{}}
	if len(s.affinity)+len(s.anti) == 0 && !c.Snapshot.HasTerms() {
		return nil, sim.NewStatus(sim.Skip)
	}
	for range s.anti {
		s.byAnti = append(s.byAnti, map[domain]int{})
	}
	s.selfMatches = matchesAll(s.affinity, pod)
	for _, n := range c.Snapshot.Nodes() {
		s.count(n, pod)
	}
	if len(s.affinity)+len(s.anti)+len(s.byExisting) == 0 {
		return nil, sim.NewStatus(sim.Skip)
	}
	c.SetState(p.Name(), s)
	return nil, nil
}

func matchesAll(terms []term, pod *v1.Pod) bool {
	for i := range terms {
		if !terms[i].matches(pod) {
			return false
		}
	}
	return true
}

// count counts the pods of a node.
func (s *counted) count(n *sim.Node, pod *v1.Pod) {
	if len(s.affinity)+len(s.anti) == 0 && !n.HasTerms() {
		return
	}
	for _, other := range n.Pods {
		existing := other.Shape.Template
		if len(s.affinity) > 0 && matchesAll(s.affinity, existing) {
			for _, t := range s.affinity {
				if value, has := topology(n, t.key); has {
					s.allAffinity[domain{t.key, value}]++
					s.someMatch = true
				}
			}
		}
		for i := range s.anti {
			if value, has := topology(n, s.anti[i].key); has && s.anti[i].matches(existing) {
				s.byAnti[i][domain{s.anti[i].key, value}]++
			}
		}
		for _, t := range termsOf(existing, requiredAnti) {
			if value, has := topology(n, t.key); has && t.matches(pod) {
				s.byExisting[domain{t.key, value}]++
			}
		}
	}
}

// Filter implements sim.Filter.
func (p InterPodAffinity) Filter(c *sim.Cycle, n *sim.Node) *sim.Status {
	s, _ := c.State(p.Name()).(*counted)
	if s == nil {
		return nil
	}
	met := true
	for _, t := range s.affinity {
		value, has := topology(n, t.key)
		if !has {
			return noAffinity
		}
		met = met && s.allAffinity[domain{t.key, value}] > 0
	}
	if !met && (s.someMatch || !s.selfMatches) {
		return noAffinity
	}
	for i, t := range s.anti {
		if value, has := topology(n, t.key); has && s.byAnti[i][domain{t.key, value}] > 0 {
			return antiRules
		}
	}
	for key, value := range n.Facts.Labels {
		if s.byExisting[domain{key, value}] > 0 {
			return antiOfOther
		}
	}
	if s.byExisting[domain{v1.LabelHostname, n.Name}] > 0 {
		return antiOfOther
	}
	return nil
}

// PreScore implements sim.PreScore: it sums the weights by domain.
func (p InterPodAffinity) PreScore(c *sim.Cycle, _ []*sim.Node) *sim.Status {
	pod := c.Pod.Shape.Template
	affinity, anti := termsOf(pod, preferredAffinity), termsOf(pod, preferredAnti)
	if len(affinity)+len(anti) == 0 && !c.Snapshot.HasTerms() {
		return sim.NewStatus(sim.Skip)
	}
	sums := map[domain]int64{}
	for _, n := range c.Snapshot.Nodes() {
		if len(affinity)+len(anti) == 0 && !n.HasTerms() {
			continue
		}
		for _, other := range n.Pods {
			p.weigh(sums, n, pod, other.Shape.Template, affinity, anti)
		}
	}
	if len(sums) == 0 {
		return sim.NewStatus(sim.Skip)
	}
	c.SetState(p.Name()+"/score", sums)
	return nil
}

// weigh adds the weights between the pod and an existing pod.
func (p InterPodAffinity) weigh(sums map[domain]int64, n *sim.Node, pod, existing *v1.Pod, affinity, anti []term) {
	add := func(terms []term, selected *v1.Pod, sign int64) {
		for i := range terms {
			if value, has := topology(n, terms[i].key); has && terms[i].matches(selected) {
				sums[domain{terms[i].key, value}] += sign * terms[i].weight
			}
		}
	}
	add(affinity, existing, 1)
	add(anti, existing, -1)
	hard := p.HardWeight
	if hard == 0 {
		hard = 1
	}
	add(termsOf(existing, requiredAffinity), pod, max(0, hard))
	add(termsOf(existing, preferredAffinity), pod, 1)
	add(termsOf(existing, preferredAnti), pod, -1)
}

// Score implements sim.Score.
func (p InterPodAffinity) Score(c *sim.Cycle, n *sim.Node) (sum int64) {
	sums, _ := c.State(p.Name() + "/score").(map[domain]int64)
	for key, value := range n.Facts.Labels {
		sum += sums[domain{key, value}]
	}
	if _, labelled := n.Facts.Labels[v1.LabelHostname]; !labelled {
		sum += sums[domain{v1.LabelHostname, n.Name}]
	}
	return sum
}

// Normalize implements sim.Normalizer.
func (InterPodAffinity) Normalize(_ *sim.Cycle, scores []int64) { minMax(scores) }

// minMax maps the smallest score to 0 and the largest to 100; equal scores to 0.
func minMax(scores []int64) {
	least, most := slices.Min(scores), slices.Max(scores)
	for i := range scores {
		if most == least {
			scores[i] = 0
		} else {
			scores[i] = int64(100 * (float64(scores[i]-least) / float64(most-least)))
		}
	}
}

// Hint implements sim.Hint: pods that come or go may help.
func (InterPodAffinity) Hint(*sim.Pod, sim.ClusterEvent) bool { return true }
