// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/semantic"
)

// Equal reports whether two normalised statuses agree in all parts owned by the agent. Conditions
// of other writers, resource claims, nominatedNodeName, and times and generations of conditions do
// not count. A missing condition of the agent counts as a difference. Equal follows the kubelet
// (1.36).
func Equal(a, b *v1.PodStatus) bool {
	if !sayTheSame(a.Conditions, b.Conditions) || !sayTheSame(b.Conditions, a.Conditions) {
		return false
	}
	return semantic.EqualBut(a, b, "Conditions", "ResourceClaimStatuses", "ExtendedResourceClaimStatus",
		"NodeAllocatableResourceClaimStatuses", "NominatedNodeName")
}

// sayTheSame reports whether b has an equal condition for every owned or shared condition of a.
func sayTheSame(a, b []v1.PodCondition) bool {
	for i := range a {
		c := &a[i]
		if !owned(c.Type) && !shared(c.Type) {
			continue
		}
		other := podfacts.Condition(b, c.Type)
		if other == nil || other.Status != c.Status || other.Reason != c.Reason || other.Message != c.Message {
			return false
		}
	}
	return true
}
