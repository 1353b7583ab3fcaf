// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// record is all that is known of one pod. It is a value: what it points to is never written to, so that a copy can be
// thought about while the original goes on.
type record struct {
	// pod is the pod as last handed in; nil if it was only observed.
	pod *v1.Pod
	// status is what the agent last said, completed; nil if nothing.
	status *v1.PodStatus
	// version counts the statuses, acked is the last one that the server has, sent the last that was to be sent.
	version, acked, sent uint64
	// changed is when the first status after acked was accepted, following the same for sent.
	changed, following time.Time
	// finished: TerminatePod was called, so nothing runs or will run.
	finished bool
	// held: the end of the pod is not told yet, because containers may be running.
	held bool

	remote remote
}

// proposal is a status that somebody wants.
type proposal struct {
	pod    *v1.Pod
	status *v1.PodStatus // private to the record from now on
	finish finish
}

// finish says whether a proposal ends the pod.
type finish uint8

const (
	goesOn finish = iota
	ends
)

// known is the best status there is so far, to compare another one with.
func (r *record) known(pod *v1.Pod) *v1.PodStatus {
	switch {
	case r.status != nil:
		return r.status
	case r.remote.status != nil:
		return r.remote.status
	}
	return &pod.Status
}

// gates are the conditions among which the pod's readiness gates are found: as others last set them.
func (r *record) gates(pod *v1.Pod) []v1.PodCondition {
	if r.remote.status != nil {
		return r.remote.status.Conditions
	}
	return pod.Status.Conditions
}

// accept takes in a proposal, and reports whether it is news and what of it was not believed.
func (r *record) accept(p proposal, now time.Time) (changed bool, clamps []Clamp) {
	old, status, stamp := r.known(p.pod), p.status, metav1.NewTime(now)
	clamps = clampContainers(&p.pod.Spec, old, status)
	completeConditions(p.pod, status, r.gates(p.pod))
	if len(clamps) > 0 {
		setReadiness(p.pod, status, r.gates(p.pod))
	}
	clamps = append(clamps, r.clampPhases(p.pod, old, status)...)
	endReadiness(status)
	setTransitionTimes(old, status, stamp)
	setStartTime(old, status, stamp)
	status.ObservedGeneration = max(old.ObservedGeneration, p.pod.Generation)
	Normalize(&p.pod.Spec, status)

	r.pod = p.pod
	r.setRef(p.pod)
	r.finished = p.finish == ends || r.finished && !isStatic(p.pod)
	if r.status != nil && Equal(r.status, status) {
		return false, clamps
	}
	if r.version == r.acked {
		r.changed = now
	}
	if r.version == r.sent {
		r.following = now
	}
	r.version++
	r.status = status
	return true, clamps
}

// clampPhases keeps status from moving back behind what was said before, and what the server has. A static pod may come
// back. That another waits for its init containers once more is no reason for complaint, but it stays Running.
func (r *record) clampPhases(pod *v1.Pod, old, status *v1.PodStatus) []Clamp {
	if isStatic(pod) {
		if status.Phase == "" {
			clampPhase(old, status)
		}
		return nil
	}
	clamps := clampPhase(old, status)
	if r.remote.status != nil && len(clamps) == 0 {
		clamps = clampPhase(r.remote.status, status)
	}
	if len(clamps) > 0 && !isTerminal(status.Phase) && startsOver(&pod.Spec, old, status) {
		return nil
	}
	return clamps
}

// astray: what is known of the server by now calls for another status than the one on hand.
func (r *record) astray() bool {
	return r.status != nil && r.remote.status != nil && (len(r.pod.Spec.ReadinessGates) > 0 ||
		!isStatic(r.pod) && movesBack(r.remote.status.Phase, r.status.Phase))
}

// setRef: a pod of the API server is known there by the name it came with; a static pod by that of its mirror.
func (r *record) setRef(pod *v1.Pod) {
	if isStatic(pod) {
		return
	}
	if r.remote.ref.UID == "" {
		r.remote.ref = refOf(pod)
	}
	r.remote.deleting = r.remote.deleting || pod.DeletionTimestamp != nil
}

// observe takes in an object of the API server, the pod itself or its mirror, and reports whether it is news.
func (r *record) observe(pod *v1.Pod) bool {
	if !r.remote.newer(pod) {
		return false
	}
	r.remote = r.remote.after(pod, r.spec(pod))
	return true
}

// spec is that of the pod, of which otherwise only an object of the API server is known.
func (r *record) spec(object *v1.Pod) *v1.PodSpec {
	if r.pod != nil {
		return &r.pod.Spec
	}
	return &object.Spec
}

// dirty: the server does not have, as far as is known, what the agent last said.
func (r *record) dirty() bool { return r.status != nil && r.acked < r.version }
