// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// record is the state of one pod. A record is a value. Its pointers are never written through, so
// next can work on a copy while the original changes.
type record struct {
	// pod is the last pod passed by the caller; nil if the pod was only observed.
	pod *v1.Pod
	// status is the agent's last status, completed; nil before the first. manifest is the hash
	// annotation of its pod.
	status   *v1.PodStatus
	manifest string
	// version counts the statuses, acked is the last version stored by the server, sent the last
	// version sent.
	version, acked, sent uint64
	// said is the last version set by the caller, not by a change on the server. told is the last
	// version sent to the server, or already stored there.
	said, told uint64
	// changed is when the first status after acked was accepted, following the same for sent.
	changed, following time.Time
	// finished: TerminatePod was called, so nothing runs or will run.
	finished bool
	// held: the end of the pod is not reported yet, because containers may be running.
	held bool

	remote remote
}

// proposal is a proposed status of a pod.
type proposal struct {
	pod    *v1.Pod
	status *v1.PodStatus // a draftOf another status
	source source
	finish finish
}

// draftOf returns a copy of a status in which accept and Normalize may change the conditions, the fields
// of container statuses, and the times and texts of container states. All other parts are shared with
// status.
func draftOf(status *v1.PodStatus) *v1.PodStatus {
	draft := *status
	draft.StartTime = status.StartTime.DeepCopy()
	draft.Conditions = slices.Clone(status.Conditions)
	for _, list := range []*[]v1.ContainerStatus{&draft.InitContainerStatuses, &draft.ContainerStatuses, &draft.EphemeralContainerStatuses} {
		*list = slices.Clone(*list)
		for i := range *list {
			c := &(*list)[i]
			c.State, c.LastTerminationState = *c.State.DeepCopy(), *c.LastTerminationState.DeepCopy()
		}
	}
	return &draft
}

// source says where a proposal comes from.
type source uint8

const (
	// fromServer: an object of the API server calls for another status.
	fromServer source = iota
	// fromCaller: the caller of the Manager says so.
	fromCaller
)

// finish says whether a proposal ends the pod.
type finish uint8

const (
	goesOn finish = iota
	ends
)

// known returns the best known status, to compare a new status with.
func (r *record) known(pod *v1.Pod) *v1.PodStatus {
	switch {
	case r.status != nil:
		return r.status
	case r.remote.status != nil:
		return r.remote.status
	}
	return &pod.Status
}

// gates returns the conditions with the pod's readiness gates, as last set by other writers.
func (r *record) gates(pod *v1.Pod) []v1.PodCondition {
	if r.remote.status != nil {
		return r.remote.status.Conditions
	}
	return pod.Status.Conditions
}

// accept applies a proposal, and reports whether the status changed and which parts were reverted.
func (r *record) accept(p proposal, now time.Time) (changed bool, clamps []clamp) {
	old, status, stamp := r.known(p.pod), p.status, metav1.NewTime(now)
	if !r.startsAnew(p) {
		clamps = clampContainers(&p.pod.Spec, old, status)
	}
	completeConditions(p.pod, old, status, r.gates(p.pod))
	if len(clamps) > 0 {
		setReadiness(p.pod, status, r.gates(p.pod))
	}
	clamps = append(clamps, r.clampPhases(p.pod, old, status)...)
	endReadiness(status)
	setTransitionTimes(old, status, stamp)
	setStartTime(old, status, stamp)
	status.ObservedGeneration = max(old.ObservedGeneration, p.pod.Generation)
	Normalize(&p.pod.Spec, status)

	r.pod, r.manifest = p.pod, p.pod.Annotations[podfacts.AnnotationHash]
	r.setRef(p.pod)
	r.finished = p.finish == ends || r.finished && (p.source == fromServer || !podfacts.IsStatic(p.pod))
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
	if p.source == fromCaller {
		r.said = r.version
	}
	r.status = status
	return true, clamps
}

// startsAnew reports whether all containers of a static pod may be new, although the UID is the
// same: the pod runs again after its end, its manifest is not that of its previous status, or it
// has no previous status. In the last case, the mirror pod shows the status of an earlier agent.
func (r *record) startsAnew(p proposal) bool {
	return podfacts.IsStatic(p.pod) && p.source == fromCaller && (r.status == nil || r.finished && p.finish == goesOn ||
		r.manifest != p.pod.Annotations[podfacts.AnnotationHash])
}

// awaitsMirror reports whether the status of a static pod is kept back until its mirror pod is
// replaced: the known mirror pod has another manifest than the status, or shows an end that the
// status would undo.
func (r *record) awaitsMirror() bool {
	if !podfacts.IsStatic(r.pod) || r.remote.status == nil {
		return false
	}
	return r.manifest != "" && r.manifest != r.remote.manifest || Revives(&r.pod.Spec, r.remote.status, r.status)
}

// clampPhases keeps the phase from moving back behind the phase of the previous status or of the
// server's status. The phase of a static pod may move back. A pod that runs its init containers
// again stays Running, which is not reported as a clamp.
func (r *record) clampPhases(pod *v1.Pod, old, status *v1.PodStatus) []clamp {
	if podfacts.IsStatic(pod) {
		if status.Phase == "" {
			clampPhase(old, status)
		}
		return nil
	}
	clamps := clampPhase(old, status)
	if r.remote.status != nil && len(clamps) == 0 {
		clamps = clampPhase(r.remote.status, status)
	}
	if !podfacts.IsTerminal(status.Phase) && startsOver(&pod.Spec, old, status) {
		return nil
	}
	return clamps
}

// astray reports whether the newest object of the server requires another status than the present
// status.
func (r *record) astray() bool {
	return r.status != nil && r.remote.status != nil && (len(r.pod.Spec.ReadinessGates) > 0 ||
		!podfacts.IsStatic(r.pod) && movesBack(r.remote.status.Phase, r.status.Phase))
}

// setRef sets the reference of a pod of the API server from pod. A static pod has the reference of
// its mirror pod.
func (r *record) setRef(pod *v1.Pod) {
	if podfacts.IsStatic(pod) {
		return
	}
	r.remote.ref = refOf(pod)
	r.remote.deleting = r.remote.deleting || pod.DeletionTimestamp != nil
}

// observe records an object of the API server, the pod itself or its mirror pod, and reports
// whether the object is newer.
func (r *record) observe(pod *v1.Pod) bool {
	if !r.remote.newer(pod) {
		return false
	}
	r.remote = r.remote.after(pod, r.spec(pod))
	return true
}

// spec returns the spec of the pod, or of object if the pod was only observed.
func (r *record) spec(object *v1.Pod) *v1.PodSpec {
	if r.pod != nil {
		return &r.pod.Spec
	}
	return &object.Spec
}

// dirty reports whether the server is not known to have the agent's last status.
func (r *record) dirty() bool { return r.acked < r.version }

// unsettled reports whether something may be left to do, although nothing changes in the record.
func (r *record) unsettled() bool {
	return r.dirty() || r.held || r.finished || r.remote.gone || r.remote.refusesEnd(r.status)
}
