// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// same reports whether two statuses say the same, whenever they were said.
func same(a, b v1.NodeStatus) bool {
	return apiequality.Semantic.DeepEqual(timeless(a), timeless(b))
}

func timeless(s v1.NodeStatus) v1.NodeStatus {
	conditions := make([]v1.NodeCondition, len(s.Conditions))
	for i, c := range s.Conditions {
		c.LastHeartbeatTime = metav1.Time{}
		conditions[i] = c
	}
	s.Conditions = conditions
	return s
}

// statusPatch is the strategic merge patch that makes before after. Lists that
// the API merges are told so that only what is ours is touched: conditions by
// type, while addresses, of which several may have one type, are replaced.
func statusPatch(before, after v1.NodeStatus) ([]byte, error) {
	type replace struct {
		Patch string `json:"$patch"`
	}
	addresses := []any{replace{"replace"}}
	for _, a := range after.Addresses {
		addresses = append(addresses, a)
	}
	return json.Marshal(map[string]any{"status": map[string]any{
		"capacity":    quantities(before.Capacity, after.Capacity),
		"allocatable": quantities(before.Allocatable, after.Allocatable),
		"conditions":  ours(before.Conditions, after.Conditions),
		"addresses":   addresses,
		"nodeInfo":    after.NodeInfo,
		"images":      after.Images,
	}})
}

// quantities are those of after, and null for what only before has.
func quantities(before, after v1.ResourceList) map[v1.ResourceName]any {
	all := make(map[v1.ResourceName]any, len(after))
	for name := range before {
		all[name] = nil
	}
	for name, q := range after {
		all[name] = q
	}
	return all
}

// ours are the conditions of after that before does not have just so.
func ours(before, after []v1.NodeCondition) (all []v1.NodeCondition) {
	for _, c := range after {
		if !has(before, c) {
			all = append(all, c)
		}
	}
	return all
}

func has(all []v1.NodeCondition, c v1.NodeCondition) bool {
	for _, other := range all {
		if apiequality.Semantic.DeepEqual(other, c) {
			return true
		}
	}
	return false
}

// labelsPatch is the merge patch that gives a node the labels it lacks; nil if it
// has them.
func labelsPatch(node *v1.Node, labels map[string]string) ([]byte, error) {
	missing := map[string]string{}
	for key, value := range labels {
		if was, ok := node.Labels[key]; !ok || was != value {
			missing[key] = value
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"labels": missing}})
}
