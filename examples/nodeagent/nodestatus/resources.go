// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podresources"
)

// withForeign returns the resources of f, and those extended resources of a capacity that f does not
// have: an administrator has written them to the node's status. As in the kubelet (1.36), such
// resources are allocatable as a whole.
func withForeign(f Facts, capacity v1.ResourceList) (all, allocatable v1.ResourceList) {
	all, allocatable = v1.ResourceList{}, v1.ResourceList{}
	maps.Copy(all, f.Capacity)
	maps.Copy(allocatable, f.Allocatable)
	for name, amount := range capacity {
		if _, isOwn := f.Capacity[name]; !isOwn && podresources.IsExtended(name) {
			all[name], allocatable[name] = amount, amount
		}
	}
	return all, allocatable
}

// withoutExtended returns a capacity with an amount of 0 for all extended resources.
func withoutExtended(capacity v1.ResourceList) v1.ResourceList {
	capacity = maps.Clone(capacity)
	for name := range capacity {
		if podresources.IsExtended(name) {
			capacity[name] = *resource.NewQuantity(0, resource.DecimalSI)
		}
	}
	return capacity
}
