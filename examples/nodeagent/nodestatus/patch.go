// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podresources"
)

// same reports whether two statuses are equal except for heartbeat times.
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

// statusPatch returns the strategic merge patch from before to after. Conditions are merged by
// type, so that conditions of other clients are kept. Addresses are replaced as a whole, because
// several addresses may have the same type.
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

		"daemonEndpoints":  after.DaemonEndpoints,
		"runtimeHandlers":  after.RuntimeHandlers,
		"features":         after.Features,
		"declaredFeatures": after.DeclaredFeatures,
	}})
}

// quantities returns after, with null for resources missing in after but present in before. Extended
// resources that do not change are left out: another client may have changed them since before.
func quantities(before, after v1.ResourceList) map[v1.ResourceName]any {
	all := make(map[v1.ResourceName]any, len(after))
	for name := range before {
		all[name] = nil
	}
	for name, q := range after {
		if was, known := before[name]; known && was.Cmp(q) == 0 && podresources.IsExtended(name) {
			delete(all, name)
			continue
		}
		all[name] = q
	}
	return all
}

// ours returns the conditions of after that differ from before. The result is not nil: null in a patch
// would remove all conditions.
func ours(before, after []v1.NodeCondition) []v1.NodeCondition {
	all := []v1.NodeCondition{}
	for _, c := range after {
		if !slices.ContainsFunc(before, func(b v1.NodeCondition) bool { return apiequality.Semantic.DeepEqual(b, c) }) {
			all = append(all, c)
		}
	}
	return all
}

// metadataPatch returns the merge patch for missing labels and annotations, nil if there are none.
func metadataPatch(node *v1.Node, labels, annotations map[string]string) ([]byte, error) {
	metadata := map[string]any{}
	if l := missing(node.Labels, labels); len(l) > 0 {
		metadata["labels"] = l
	}
	if a := missing(node.Annotations, annotations); len(a) > 0 {
		metadata["annotations"] = a
	}
	if len(metadata) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": metadata})
}

// missing returns the entries of want that have does not have.
func missing(have, want map[string]string) map[string]string {
	left := map[string]string{}
	for key, value := range want {
		if was, ok := have[key]; !ok || was != value {
			left[key] = value
		}
	}
	return left
}
