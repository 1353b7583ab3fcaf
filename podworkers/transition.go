// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/semantic"
)

// newRecord returns the record of a UID first seen with u; u must be valid. The record contains
// only the identity and the sticky facts of u. The caller calls absorb after deciding whether the
// pod may start.
func newRecord(u Update, now time.Time) record {
	r := record{uid: u.uid(), key: podfacts.StaticName(u.Pod), syncedAt: now}
	if u.Orphan != nil {
		orphan := *u.Orphan
		r.orphan, r.undesired = &orphan, true
	}
	r.remember(u)
	return r
}

// apply folds the valid update u into the record. A non-nil interrupt is the cause for cancelling the call in flight.
func (r *record) apply(u Update, now time.Time) (interrupt error) {
	r.remember(u)
	switch {
	case u.Type == UpdateCreate && r.phase > phaseSyncing:
		// The UID is used again while the earlier pod ends. The earlier pod must end undisturbed, so the update is not
		// folded in. SyncKnownPods forgets the earlier record.
		r.restart = true
		return nil
	case r.phase == phaseFinished:
		return nil
	case u.Orphan != nil && r.phase == phaseTerminated:
		// The runtime's listing may be older than the end of the pod.
		return nil
	case r.orphan != nil && u.Type != UpdateKill:
		// The pod is configured, but an orphan with the same UID is being stopped. When the orphan has stopped, the
		// record is forgotten and the caller adds the pod again. Folding the update in would leave a tombstone instead.
		return nil
	}
	return r.absorb(u, now)
}

// absorb folds u into the record without the exceptions of apply. A new record also uses absorb for its first update.
func (r *record) absorb(u Update, now time.Time) (interrupt error) {
	r.fold(u, now)
	e, asked := r.stopEvent(u)
	shrunk := r.ratchet(u, asked)
	switch {
	case asked && r.call == callSyncPod:
		interrupt = ErrTerminationRequested
	case shrunk && (r.call == callTerminatingPod || r.call == callTerminatingOrphan):
		interrupt = ErrGracePeriodShortened
	}
	if asked {
		r.move(e, now)
	}
	return interrupt
}

// remember records the sticky facts of u, in any phase.
func (r *record) remember(u Update) {
	if u.Orphan != nil || u.Pod.DeletionTimestamp != nil {
		r.deleted = true
	}
	if u.Kill != nil && u.Kill.Evict {
		r.evicted = true
	}
}

// fold merges the syncer's arguments of u with the arguments not yet delivered, and makes a call due.
func (r *record) fold(u Update, now time.Time) {
	if u.Pod != nil && r.orphan == nil {
		r.pod = u.Pod
		if u.MirrorPod != nil || u.Type == UpdateUpdate || u.Type == UpdateCreate {
			r.mirror = u.MirrorPod
		}
	}
	r.updateType = max(r.updateType, u.Type)
	received := u.Received
	if received.IsZero() {
		received = now
	}
	if r.received.IsZero() || received.Before(r.received) {
		r.received = received
	}
	r.unread, r.retryAt = true, time.Time{}
	if u.Kill != nil && u.Kill.Status != nil && r.phase < phaseTerminated {
		r.status = append(r.status, u.Kill.Status)
	}
}

// stopEvent returns the termination event of u, or false if u does not end the pod.
func (r *record) stopEvent(u Update) (event, bool) {
	switch {
	case u.Type != UpdateKill && u.Pod.DeletionTimestamp == nil && !podfacts.IsTerminal(u.Pod.Status.Phase):
		return 0, false
	case r.call == callSyncPod:
		return eventStopInFlight, true
	}
	return eventStop, true
}

// ratchet decides the grace period if u ends the pod, or shortens the grace period of an ending pod. It reports whether
// a decided grace period shrank.
func (r *record) ratchet(u Update, asked bool) bool {
	ending := r.phase == phaseStopping || r.phase == phaseTerminating
	if r.phase >= phaseTerminated || !ending && !asked {
		return false
	}
	pod := u.Pod
	if pod == nil {
		pod = r.pod
	}
	before := r.grace
	r.grace = gracePeriod(before, pod, u.gracePeriod())
	return r.grace < before
}

// remind makes a call due, unless nothing is left to do.
func (r *record) remind(now time.Time) {
	if r.phase == phaseFinished {
		return
	}
	r.unread, r.retryAt = true, time.Time{}
	if r.received.IsZero() {
		r.received = now
	}
}

// configure returns the updates for the record of a configured pod. old is the previously configured pod, or nil if
// unknown.
func (r *record) configure(old, pod *v1.Pod) []Update {
	another := old != nil && podfacts.IsStatic(pod) && old.Annotations[podfacts.AnnotationHash] != pod.Annotations[podfacts.AnnotationHash]
	switch {
	case r.undesired: // The pod returned while its earlier record, or an orphan of its UID, is ending.
		return []Update{{Type: UpdateCreate, Pod: pod}}
	case another:
		return []Update{{Type: UpdateKill, Pod: old}, {Type: UpdateCreate, Pod: pod}}
	case old == nil || old != pod && needsSync(old, pod):
		return []Update{{Type: UpdateUpdate, Pod: pod}}
	}
	return nil
}

// needsSync reports whether a configured pod has changed in more than its status. A change of the
// status alone is usually the agent's own status, returned by the API server. Two changes of the
// status come from other clients and need a sync: a terminal phase, and the condition of a
// readiness gate.
func needsSync(old, pod *v1.Pod) bool {
	return podfacts.IsTerminal(pod.Status.Phase) || podfacts.GatesDiffer(old, pod) ||
		!old.DeletionTimestamp.Equal(pod.DeletionTimestamp) ||
		!semantic.Equal(&old.DeletionGracePeriodSeconds, &pod.DeletionGracePeriodSeconds) ||
		!maps.Equal(old.Labels, pod.Labels) || !maps.Equal(old.Annotations, pod.Annotations) || !semantic.Equal(&old.Spec, &pod.Spec)
}

// known folds into the record whether the UID is still configured, as of a SyncKnownPods call. forget reports that
// the record is to be forgotten. A non-nil interrupt is the cause for cancelling the call in flight.
func (r *record) known(desired bool, now time.Time) (forget bool, interrupt error) {
	r.undesired = !desired
	switch {
	case r.phase == phaseFinished && (r.undesired || r.restart):
		return true, nil
	case desired:
		return false, nil
	case r.phase == phaseWaiting:
		return true, nil
	}
	r.deleted = true
	if r.call == callSyncPod {
		r.move(eventStopInFlight, now)
		return false, ErrTerminationRequested
	}
	r.move(eventStop, now)
	return false, nil
}
