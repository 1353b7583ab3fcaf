// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MergeInput is what Merge makes a status of. Nothing in it is written to, and the result shares memory with it.
type MergeInput struct {
	// Pod has the spec and the annotations.
	Pod *v1.Pod
	// API is the status that the API server has. Nil: nobody knows.
	API *v1.PodStatus
	// Ours is the status as the agent sees it, normalised.
	Ours *v1.PodStatus
	// MayRun: a container of the pod may still be running.
	MayRun bool
	// Now is the time of what changes hands only now, in whole seconds.
	Now metav1.Time
}

// Merge returns what the API server is to have: ours, with what others own as they last left it, and a phase that does
// not move backwards. Held means that the pod is not yet said to have ended, because containers may be running; Merge has
// to be asked again when none does.
//
// It follows the kubelet (1.36), and beyond it keeps nominatedNodeName, a start time and a QoS class that the server has
// and we do not, never takes back a terminal phase, computes Ready anew from the newest readiness gates, and gives a
// condition that somebody else has changed, and that is changed back, the time of that.
func Merge(in MergeInput) (merged v1.PodStatus, held bool) {
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
	if merged.QOSClass == "" {
		merged.QOSClass = api.QOSClass
	}
	if !api.StartTime.IsZero() {
		merged.StartTime = api.StartTime
	}
	if in.API != nil && !isStatic(in.Pod) {
		clampPhase(api, &merged)
	}
	ends := isTerminal(merged.Phase) && !isTerminal(api.Phase)
	if held = ends && in.MayRun; held {
		merged.Phase, merged.Reason, merged.Message = api.Phase, api.Reason, api.Message
	}
	merged.Conditions = mergeConditions(api.Conditions, in.Ours.Conditions, ends && !held)
	applyGates(in.Pod, &merged, merged.Conditions)
	endReadiness(&merged)
	mergeTransitionTimes(api.Conditions, merged.Conditions, in.Now)
	return merged, held
}

// mergeConditions returns a new list: what others own from the API, ours from us. What is shared is ours at the moment
// the pod ends, and the API's otherwise.
func mergeConditions(api, ours []v1.PodCondition, ends bool) []v1.PodCondition {
	out := make([]v1.PodCondition, 0, len(api)+len(ours))
	mine := func(t v1.PodConditionType) bool {
		return Owned(t) || ends && shared(t) && condition(ours, t) != nil
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

// mergeTransitionTimes keeps the times of merged from being older than those of the API: of two that stand for the same
// status the later counts, and what undoes a later change happens now.
func mergeTransitionTimes(api, merged []v1.PodCondition, now metav1.Time) {
	for i := range merged {
		c := &merged[i]
		theirs := condition(api, c.Type)
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
