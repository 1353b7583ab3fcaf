// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The causes (context.Cause) with which the context of a call is cancelled before the call returns.
var (
	// ErrTerminationRequested: a SyncPod call has become pointless because the pod is to end.
	ErrTerminationRequested = errors.New("pod termination requested")
	// ErrGracePeriodShortened: a SyncTerminatingPod call will be repeated with a shorter grace period.
	ErrGracePeriodShortened = errors.New("pod grace period shortened")
)

// record is all that is remembered of one UID. Its methods decide; they take no lock, read no clock and call nobody.
type record struct {
	uid types.UID
	// orphan is set, and never changes, if only the container runtime knows the pod; then pod stays nil.
	orphan *Orphan
	// pod and mirror are the newest known; nil once finished, so that a tombstone pins nothing.
	pod, mirror *v1.Pod
	// key is the exclusive key, "" for none.
	key string

	phase phase
	// call is the method in flight.
	call callKind
	// unread: something has happened that the syncer has not been told yet, or a retry is due.
	unread bool
	// updateType and received are folded from the updates not told yet.
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
}

// newRecord returns the record of a UID first seen with u, of which validate approved. It has taken in nothing of u
// but whom it is about and the facts that stick: absorb does the rest once it is known whether the pod may start.
func newRecord(u Update, key string, now time.Time) record {
	r := record{uid: u.uid(), key: key, syncedAt: now}
	if u.Orphan != nil {
		orphan := *u.Orphan
		r.orphan, r.undesired = &orphan, true
	}
	r.remember(u)
	return r
}

// move applies e and keeps what depends on the phase in step. It is the only place where a phase changes.
func (r *record) move(e event, now time.Time) {
	next := r.phase.next(e)
	if next == r.phase {
		return
	}
	r.phase = next
	// Whatever the new phase asks for is asked for now: a back-off belongs to the phase it was earned in.
	r.unread, r.retryAt = true, time.Time{}
	r.attempt, r.lastErr = 0, nil
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

// nextCall returns the method that the phase asks for.
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

// wake makes a call due at time now if the planned retry has come, and reports whether it had.
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
}

// begin returns the call that is due and marks it as in flight; what it tells counts as told.
func (r *record) begin() call {
	c := call{
		uid: r.uid, kind: r.nextCall(),
		request: SyncRequest{
			Type: r.updateType, Pod: r.pod, MirrorPod: r.mirror, Attempt: r.attempt, LastSync: r.lastSync,
		},
		orphan: r.orphan, grace: r.grace, evicted: r.evicted,
		status: r.status, received: r.received,
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

// result is how a call ended.
type result struct {
	terminal bool
	err      error
	// interrupted: the context was cancelled before the call returned, so err is no failure.
	interrupted bool
	// delay is how long to wait before the next call if the phase stays; negative for ever.
	delay time.Duration
}

// fate says what becomes of a record.
type fate uint8

const (
	fateKeep fate = iota
	fateForget
)

// settle folds the end of the call in flight into the record.
func (r *record) settle(res result, now time.Time) fate {
	ended := r.call
	r.call, r.lastSync = callNone, now
	if r.phase == phaseStopping {
		// The pod was asked to end while SyncPod ran: what that call returned no longer matters.
		r.move(eventReturned, now)
		return fateKeep
	}
	if res.err != nil {
		if !res.interrupted {
			r.attempt++
			r.lastErr = res.err
		}
		r.plan(res.delay, now)
		return fateKeep
	}
	switch ended {
	case callSyncPod:
		if res.terminal {
			r.move(eventCompleted, now)
			return fateKeep
		}
		r.attempt, r.lastErr = 0, nil
		r.plan(res.delay, now)
	case callTerminatingPod:
		r.move(eventStopped, now)
	case callTerminatingOrphan:
		return fateForget
	case callTerminatedPod:
		r.move(eventCleaned, now)
	}
	return fateKeep
}

// plan sets the next call that needs no update, unless one is due anyway.
func (r *record) plan(delay time.Duration, now time.Time) {
	switch {
	case r.unread || delay < 0:
	case delay == 0:
		r.unread = true
	default:
		r.retryAt = now.Add(delay)
	}
}
