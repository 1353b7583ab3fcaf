// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Equal reports whether two normalised statuses agree in all parts owned by the agent. Conditions
// of other writers, resource claims, nominatedNodeName, and times and generations of conditions do
// not count. A missing condition of the agent counts as a difference. Equal follows the kubelet
// (1.36).
func Equal(a, b *v1.PodStatus) bool {
	if !sayTheSame(a.Conditions, b.Conditions) || !sayTheSame(b.Conditions, a.Conditions) {
		return false
	}
	x, y := withoutOthers(*a), withoutOthers(*b)
	return reflect.DeepEqual(&x, &y) || equality.Semantic.DeepEqual(&x, &y)
}

// sayTheSame reports whether b has an equal condition for every owned or shared condition of a.
func sayTheSame(a, b []v1.PodCondition) bool {
	for i := range a {
		c := &a[i]
		if !owned(c.Type) && !shared(c.Type) {
			continue
		}
		other := condition(b, c.Type)
		if other == nil || other.Status != c.Status || other.Reason != c.Reason || other.Message != c.Message {
			return false
		}
	}
	return true
}

func withoutOthers(s v1.PodStatus) v1.PodStatus {
	s.Conditions = nil
	s.ResourceClaimStatuses = nil
	s.ExtendedResourceClaimStatus = nil
	s.NodeAllocatableResourceClaimStatuses = nil
	s.NominatedNodeName = ""
	return s
}
