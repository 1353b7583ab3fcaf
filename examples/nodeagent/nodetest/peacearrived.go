// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// arrived checks that the API server has the complete status that the agent has published, and the
// conditions of other clients.
func (p *player) arrived(pod *v1.Pod, status *v1.PodStatus) error {
	stored := p.server.Get(pod.UID)
	if stored == nil {
		return nil
	}
	theirs, ours := stored.Status.DeepCopy(), status.DeepCopy()
	if err := p.gated(pod, stored, status); err != nil {
		return err
	}
	for _, s := range []*v1.PodStatus{ours, theirs} {
		s.ResourceClaimStatuses, s.NominatedNodeName = nil, ""
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c v1.PodCondition) bool {
			return strings.Contains(string(c.Type), "/") // another client's
		})
	}
	flipped(p.node.History().Stored, pod.UID, theirs, ours)
	restarting := slices.ContainsFunc(ours.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.AllContainersRestarting })
	if restarting && ours.Phase == v1.PodPending && theirs.Phase == v1.PodRunning {
		ours.Phase = theirs.Phase // the API server accepts no earlier phase
	}
	return sameFields(theirs, ours, over(status.Phase))
}

// flipped sets the transition times in ours to those in theirs if the API server has shown the other
// status of the condition since. The status manager takes a probe result before the next status of
// the agent: if a container ends at the instant at which the last other container becomes ready, the
// pod is ready for that instant on the API server, and not in the statuses of the agent. The status
// manager also takes the condition of a readiness gate at once, and the agent after the sync in progress.
func flipped(stored []Stored, uid types.UID, theirs, ours *v1.PodStatus) {
	for i := range ours.Conditions {
		own := &ours.Conditions[i]
		now, there := conditionsOf(theirs)[own.Type]
		if !there || now.Status != own.Status || own.Type != v1.PodReady && own.Type != v1.ContainersReady {
			continue
		}
		if slices.ContainsFunc(stored, func(s Stored) bool {
			other, known := conditionsOf(&s.Pod.Status)[own.Type]
			return known && s.Pod.UID == uid && other.Status != own.Status && other.LastTransitionTime.After(own.LastTransitionTime.Time) &&
				!other.LastTransitionTime.After(now.LastTransitionTime.Time) ||
				own.Type == v1.PodReady && s.Pod.UID == uid && now.LastTransitionTime.Before(&own.LastTransitionTime) && gateMoved(s.Pod, now.LastTransitionTime)
		}) {
			own.LastTransitionTime = now.LastTransitionTime
		}
	}
}

// gateMoved reports whether a readiness gate of the pod has its status since that time.
func gateMoved(pod *v1.Pod, at metav1.Time) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return isGate(pod, c.Type) && c.LastTransitionTime.Equal(&at) })
}

// sameFields checks that two statuses have the same fields. sameFields modifies both.
func sameFields(theirs, ours *v1.PodStatus, ended bool) error {
	a, errA := fieldsOf(theirs, ended)
	b, errB := fieldsOf(ours, ended)
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	for _, fields := range []map[string]json.RawMessage{a, b} {
		for field := range fields {
			if string(a[field]) != string(b[field]) {
				return fmt.Errorf("the API server has %s %s, and the agent %s", field, a[field], b[field])
			}
		}
	}
	return nil
}

// gated checks that a condition set by another client stays, and that a pod is ready if its
// containers are ready and its readiness gates are True.
func (p *player) gated(pod, stored *v1.Pod, status *v1.PodStatus) error {
	is := make(map[v1.PodConditionType]v1.ConditionStatus)
	for _, c := range stored.Status.Conditions {
		is[c.Type] = c.Status
	}
	if c, ok := p.conditions[pod.UID]; ok && is[c.Type] != c.Status {
		return fmt.Errorf("somebody has set condition %s to %s, and the API server has %q", c.Type, c.Status, is[c.Type])
	}
	want := is[v1.ContainersReady]
	for _, gate := range pod.Spec.ReadinessGates {
		if is[gate.ConditionType] != v1.ConditionTrue {
			want = v1.ConditionFalse
		}
	}
	if over(status.Phase) {
		return nil
	}
	return differs("condition Ready on the API server", want, is[v1.PodReady])
}

// isGate reports whether a condition is a readiness gate of the pod.
func isGate(pod *v1.Pod, t v1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(g v1.PodReadinessGate) bool { return g.ConditionType == t })
}

// fieldsOf returns a status in JSON, by field, with sorted lists and times in whole seconds. It
// modifies the status.
func fieldsOf(status *v1.PodStatus, ended bool) (fields map[string]json.RawMessage, err error) {
	slices.SortFunc(status.Conditions, func(a, b v1.PodCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		slices.SortFunc(list, func(a, b v1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) })
	}
	if ended {
		// At the end of a pod, unknown facts about containers are replaced by texts in the patch,
		// and the pod is no longer ready. The end can be that of a version that no status was about.
		status.InitContainerStatuses, status.ContainerStatuses, status.ObservedGeneration = nil, nil, 0
		for i := range status.Conditions {
			status.Conditions[i].LastTransitionTime, status.Conditions[i].ObservedGeneration = metav1.Time{}, 0
		}
	}
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return fields, json.Unmarshal(text, &fields)
}
