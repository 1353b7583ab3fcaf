// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/nodeselector"
)

// MatchesNode reports whether the pod's node selector and required node affinity match the node.
func MatchesNode(pod *v1.Pod, node *Node) bool {
	for key, value := range pod.Spec.NodeSelector {
		if have, ok := node.Labels[key]; !ok || have != value {
			return false
		}
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(t v1.NodeSelectorTerm) bool { return MatchesTerm(&t, node) })
}

// MatchesTerm reports whether all requirements of the term match the node. An empty term matches no
// node.
func MatchesTerm(t *v1.NodeSelectorTerm, node *Node) bool {
	return nodeselector.Matches(t, node.Labels, node.Name)
}

// toleratesAll reports whether the pod tolerates all taints with the effect NoExecute.
func toleratesAll(pod *v1.Pod, taints []v1.Taint) bool {
	for i := range taints {
		if taints[i].Effect != v1.TaintEffectNoExecute {
			continue
		}
		if !Tolerates(pod, &taints[i]) {
			return false
		}
	}
	return true
}

// Tolerates reports whether the pod tolerates a taint of any effect.
func Tolerates(pod *v1.Pod, taint *v1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool { return tolerates(&t, taint) })
}

func tolerates(t *v1.Toleration, taint *v1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", v1.TolerationOpEqual:
		return t.Value == taint.Value
	case v1.TolerationOpExists:
		return true
	}
	// The operators Lt and Gt are alpha. Their feature gate is off by default, and this package has
	// no feature gates.
	return false
}
