// SPDX-License-Identifier: Apache-2.0

package podworkers

import "time"

// apply folds u, of which validate approved, into the record. A non-nil interrupt is the cause with which the call
// in flight must be cancelled.
func (r *record) apply(u Update, now time.Time) (interrupt error) {
	r.remember(u)
	switch {
	case u.Type == UpdateCreate && r.phase > phaseSyncing:
		// The UID is used again while its predecessor ends. That one must end undisturbed, so the update is not
		// folded in; SyncKnownPods makes room for it.
		r.restart = true
		return nil
	case r.phase == phaseFinished:
		return nil
	case u.Orphan != nil && r.phase == phaseTerminated:
		// The runtime's listing may be older than the end of the pod.
		return nil
	case r.orphan != nil && u.Pod != nil && u.Type != UpdateKill:
		// The pod is configured, but what runs under its UID is unknown and being ended. The record goes away
		// when that is done, and the caller adds the pod afresh; folding it in would leave a tombstone instead.
		return nil
	}
	return r.absorb(u, now)
}

// absorb is apply without exceptions; it is also how a new record takes in the update that made it.
func (r *record) absorb(u Update, now time.Time) (interrupt error) {
	r.fold(u, now)
	e, asked := r.stopEvent(u)
	shrunk := r.ratchet(u, asked)
	switch {
	case asked && r.phase == phaseSyncing && r.call == callSyncPod:
		interrupt = ErrTerminationRequested
	case shrunk && (r.call == callTerminatingPod || r.call == callTerminatingOrphan):
		interrupt = ErrGracePeriodShortened
	}
	if asked {
		r.move(e, now)
	}
	return interrupt
}

// remember keeps the facts that stick whenever they arrive.
func (r *record) remember(u Update) {
	if u.Orphan != nil || u.Pod.DeletionTimestamp != nil {
		r.deleted = true
	}
	if u.Kill != nil && u.Kill.Evict {
		r.evicted = true
	}
}

// fold merges the parts of u that the syncer is told into those it has not been told yet, and makes a call due.
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

// stopEvent returns the event by which u ends the pod, if it asks for that.
func (r *record) stopEvent(u Update) (event, bool) {
	switch {
	case u.Orphan == nil && u.Type != UpdateKill && u.Pod.DeletionTimestamp == nil && !isTerminal(u.Pod):
		return 0, false
	case r.call == callSyncPod:
		return eventStopInFlight, true
	case u.Orphan != nil:
		return eventStopSeen, true
	}
	return eventStop, true
}

// ratchet decides the grace period of a pod that u asks to end, or shortens that of one that is ending, and reports
// whether a decided one shrank.
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

// known folds into the record whether the UID is still configured, as of a SyncKnownPods call.
func (r *record) known(desired bool, now time.Time) (f fate, interrupt error) {
	r.undesired = !desired
	switch {
	case r.phase == phaseFinished && (r.undesired || r.restart):
		return fateForget, nil
	case desired:
		return fateKeep, nil
	case r.phase == phaseWaiting:
		return fateForget, nil
	}
	r.deleted = true
	switch {
	case r.phase == phaseSyncing && r.call == callSyncPod:
		r.move(eventStopInFlight, now)
		return fateKeep, ErrTerminationRequested
	case r.phase == phaseSyncing:
		r.move(eventStop, now)
	}
	return fateKeep, nil
}
