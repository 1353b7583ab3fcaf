// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// mergeInput holds the arguments of merge. merge writes to no argument, and the result shares
// memory with the arguments.
type mergeInput struct {
	// Pod has the spec and the annotations.
	Pod *v1.Pod
	// API is the status stored by the API server. Nil means unknown.
	API *v1.PodStatus
	// Ours is the agent's status, normalised.
	Ours *v1.PodStatus
	// MayRun: a container of the pod may still be running.
	MayRun bool
	// Now is the transition time for conditions that change in merge, in whole seconds.
	Now metav1.Time
}

// merge returns the status for the API server: the agent's status, the latest values of other
// writers, and a phase that does not move backwards. held reports that the end of the pod is
// withheld, because containers may be running. Call merge again when no container runs.
//
// merge follows the kubelet (1.36), with these additions. It keeps nominatedNodeName, and a start
// time and QoS class known only to the server. It never undoes a terminal phase, and recomputes
// Ready from the newest readiness gates. If merge reverts a condition changed by another writer,
// the transition time is Now.
func merge(in mergeInput) (merged v1.PodStatus, held bool) {
	api := in.API
	if api == nil {
		api = &v1.PodStatus{}
	}
	merged = *in.Ours
	merged.ResourceClaimStatuses = api.ResourceClaimStatuses
	merged.ExtendedResourceClaimStatus = api.ExtendedResourceClaimStatus
	merged.NodeAllocatableResourceClaimStatuses = api.NodeAllocatableResourceClaimStatuses
	merged.NominatedNodeName = api.NominatedNodeName
	merged.ObservedGeneration = max(merged.ObservedGeneration, api.ObservedGeneration)
	merged.QOSClass = cmp.Or(merged.QOSClass, api.QOSClass)
	if !api.StartTime.IsZero() {
		merged.StartTime = api.StartTime
	}
	if !podfacts.IsStatic(in.Pod) {
		clampPhase(api, &merged)
	}
	ends := podfacts.IsTerminal(merged.Phase) && !podfacts.IsTerminal(api.Phase)
	if held = ends && in.MayRun; held {
		merged.Phase, merged.Reason, merged.Message = api.Phase, api.Reason, api.Message
	}
	merged.Conditions = mergeConditions(api.Conditions, in.Ours.Conditions, ends && !held)
	applyGates(in.Pod, &merged, merged.Conditions)
	endReadiness(&merged)
	mergeTransitionTimes(api.Conditions, merged.Conditions, in.Now)
	return merged, held
}

// mergeConditions returns a new list: owned conditions from the agent, and all others from the API.
// Shared conditions come from the agent when the pod ends, and from the API otherwise.
func mergeConditions(api, ours []v1.PodCondition, ends bool) []v1.PodCondition {
	out := make([]v1.PodCondition, 0, max(len(api), len(ours)))
	mine := func(t v1.PodConditionType) bool {
		return owned(t) || ends && shared(t) && podfacts.Condition(ours, t) != nil
	}
	for _, c := range api {
		if !mine(c.Type) {
			out = append(out, c)
		}
	}
	for _, c := range ours {
		if mine(c.Type) {
			out = append(out, c)
		}
	}
	return out
}

// mergeTransitionTimes keeps transition times in merged from moving back. If both conditions have
// the same status, the later time counts. If merged reverts a later change, the time is now.
func mergeTransitionTimes(api, merged []v1.PodCondition, now metav1.Time) {
	for i := range merged {
		c := &merged[i]
		theirs := podfacts.Condition(api, c.Type)
		if theirs == nil {
			theirs = &v1.PodCondition{}
		}
		switch older := c.LastTransitionTime.Before(&theirs.LastTransitionTime); {
		case older && theirs.Status == c.Status:
			c.LastTransitionTime = theirs.LastTransitionTime
		case older, c.LastTransitionTime.IsZero():
			c.LastTransitionTime = now
		}
	}
}
