// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The causes (context.Cause) of a context cancelled before its call returned.
var (
	// ErrTerminationRequested: a SyncPod call has become pointless because the pod is to end.
	ErrTerminationRequested = errors.New("pod termination requested")
	// ErrGracePeriodShortened: a SyncTerminatingPod call will be repeated with a shorter grace
	// period.
	ErrGracePeriodShortened = errors.New("pod grace period shortened")
)

// record is the state of one UID. Its methods decide; they take no lock, read no clock and call no
// caller's function.
type record struct {
	uid types.UID
	// orphan is set, and never changes, if only the container runtime knows the pod; then pod stays
	// nil.
	orphan *Orphan
	// pod and mirror are the newest known pods; nil once finished, so that a tombstone does not
	// retain them.
	pod, mirror *v1.Pod
	// key is the exclusive key, "" for none.
	key string

	phase phase
	// call is the method in flight.
	call callKind
	// unread: an update has not been passed to the syncer yet, or a retry is due.
	unread bool
	// updateType and received are merged from the updates that were not passed to the syncer yet.
	updateType UpdateType
	received   time.Time

	// Sticky facts.
	deleted, evicted, undesired, restart bool
	// grace is in seconds, 0 until termination is requested.
	grace int64
	// status are the registered KillOptions.Status; append-only, dropped when terminated.
	status []func(*v1.PodStatus)

	syncedAt, startedAt, terminatingAt, terminatedAt, lastSync time.Time
	// retryAt is when the worker wakes by itself; zero for never.
	retryAt time.Time
	attempt int
	lastErr error
	// hasty: the last call of this phase asked for a repetition at a time already passed.
	hasty bool
}

// move applies e and updates the fields that depend on the phase. Only move changes a phase.
func (r *record) move(e event, now time.Time) {
	next := r.phase.next(e)
	if next == r.phase {
		return
	}
	r.phase = next
	// A call of the new phase is due now, because a back-off belongs to the phase of the failure.
	r.unread, r.retryAt = true, time.Time{}
	r.attempt, r.lastErr, r.hasty = 0, nil, false
	if next == phaseSyncing {
		r.startedAt = now
	}
	if next > phaseSyncing && r.terminatingAt.IsZero() {
		r.terminatingAt = now
	}
	if next > phaseSyncing && r.grace == 0 {
		r.grace = gracePeriod(0, r.pod, nil)
	}
	if next >= phaseTerminated && r.terminatedAt.IsZero() {
		r.terminatedAt = now
		r.status = nil
	}
	if next == phaseFinished {
		r.pod, r.mirror = nil, nil
	}
}

// nextCall returns the method to call in the current phase.
func (r *record) nextCall() callKind {
	switch r.phase {
	case phaseSyncing:
		return callSyncPod
	case phaseTerminating:
		if r.orphan != nil {
			return callTerminatingOrphan
		}
		return callTerminatingPod
	case phaseTerminated:
		return callTerminatedPod
	}
	return callNone
}

// due reports whether a call should begin now.
func (r *record) due() bool {
	return r.unread && r.call == callNone && r.nextCall() != callNone
}

// wake makes a call due if the planned retry time is not after now, and reports whether a retry was
// due.
func (r *record) wake(now time.Time) bool {
	if r.retryAt.IsZero() || now.Before(r.retryAt) {
		return false
	}
	r.unread, r.retryAt = true, time.Time{}
	return true
}

// call is one call of the syncer with all its arguments.
type call struct {
	uid      types.UID
	kind     callKind
	request  SyncRequest
	orphan   *Orphan
	grace    int64
	evicted  bool
	status   []func(*v1.PodStatus)
	received time.Time
	hasty    bool  // record.hasty, of the call before
	lastErr  error // record.lastErr
	cancel   context.CancelCauseFunc
}

// begin returns the due call and marks it as in flight. The updates in the call count as delivered.
func (r *record) begin() call {
	c := call{
		uid: r.uid, kind: r.nextCall(),
		request: SyncRequest{
			Type: r.updateType, Pod: r.pod, MirrorPod: r.mirror, Attempt: r.attempt, LastSync: r.lastSync,
		},
		orphan: r.orphan, grace: r.grace, evicted: r.evicted,
		status: r.status, received: r.received, hasty: r.hasty, lastErr: r.lastErr,
	}
	r.call = c.kind
	r.unread, r.retryAt = false, time.Time{}
	r.updateType, r.received = UpdateSync, time.Time{}
	return c
}

// terminating returns c as the request of SyncTerminatingPod.
func (c *call) terminating() TerminatingRequest {
	status := c.status
	return TerminatingRequest{
		SyncRequest: c.request, GracePeriodSeconds: c.grace, Evicted: c.evicted,
		ApplyStatus: func(s *v1.PodStatus) {
			for _, apply := range status {
				apply(s)
			}
		},
	}
}

// settle folds the end of the call in flight into the record, and reports whether the record is to be
// forgotten. If the phase stays, the next call without an update follows after p.
func (r *record) settle(ev SyncEvent, p pause) (forget bool) {
	ended := r.call
	r.call, r.lastSync, r.hasty = callNone, ev.Ended, p.hasty
	if r.phase == phaseStopping {
		// The pod was asked to end while SyncPod ran, so the result of SyncPod no longer matters.
		r.move(eventReturned, ev.Ended)
		return false
	}
	if ev.Err != nil {
		if !ev.Interrupted {
			r.attempt++
			r.lastErr = ev.Err
		}
		r.plan(p.delay, ev.Ended)
		return false
	}
	switch ended {
	case callSyncPod:
		if ev.Outcome.Over {
			r.move(eventCompleted, ev.Ended)
			return false
		}
		r.attempt, r.lastErr = 0, nil
		r.plan(p.delay, ev.Ended)
	case callTerminatingPod:
		r.move(eventStopped, ev.Ended)
	case callTerminatedPod:
		r.move(eventCleaned, ev.Ended)
	}
	return ended == callTerminatingOrphan
}

// plan schedules the next call without an update, unless a call is due already.
func (r *record) plan(delay time.Duration, now time.Time) {
	switch {
	case r.unread:
	case delay == 0:
		r.unread = true
	default:
		r.retryAt = now.Add(delay)
	}
}
