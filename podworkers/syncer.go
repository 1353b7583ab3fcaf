// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodSyncer makes containers match the decisions of Workers. Each method may be called repeatedly
// with the same request. A method must converge toward the requested state and must not repeat
// completed work.
//
// Concurrency: calls for different pods run at the same time. For one UID there is at most one call
// at a time across all methods, and each call happens before the next. No lock is held, so a syncer
// may call any method of Workers. The exception is KillPod on its own pod, which would wait for
// itself.
//
// Order for one UID: SyncPod any number of times, SyncTerminatingPod until nil, SyncTerminatedPod
// until nil, then no call until SyncKnownPods has forgotten the UID.
//
// Context: each call has its own context, derived from the context of Run and cancelled as soon as
// the call returns. Do not use the context for probes, watches, containers or anything else that
// outlives the call. The context is cancelled earlier if the result of the call no longer matters;
// context.Cause is then ErrTerminationRequested or ErrGracePeriodShortened. The method should then
// return soon, with any error. A call that ignores the cancellation only delays the next call.
//
// Errors: nil means done. An error is retried after ten seconds, or as ErrTransient and RetryAfter
// say. The error is logged, so the error must not hold secrets. A panic is not recovered.
type PodSyncer interface {
	// SyncPod makes the pod run as r.Pod says. The Outcome is ignored beside an error.
	SyncPod(ctx context.Context, r SyncRequest) (Outcome, error)
	// SyncTerminatingPod stops the pod's containers within r.GracePeriodSeconds. Nil promises that
	// no container of the pod runs or will run. If the grace period shrinks during the call, ctx is
	// cancelled with ErrGracePeriodShortened, and the method is called again with the shorter grace
	// period.
	SyncTerminatingPod(ctx context.Context, r TerminatingRequest) error
	// SyncTerminatedPod releases the pod's resources (volumes, cgroups) and writes its final
	// status. Nil makes the pod finished.
	SyncTerminatedPod(ctx context.Context, r SyncRequest) error
}

// Outcome is the result of a SyncPod call without an error. The zero value means: the pod runs on,
// sync it again after a minute.
type Outcome struct {
	// Over reports that all containers of the pod have ended for good (phase Succeeded or Failed).
	// Workers then terminates the pod.
	Over bool
	// Again is when the pod is synced again if no update comes before, exactly, without jitter: the
	// end of a back-off, for example. Zero means after a minute. A minute is also the longest wait,
	// so a later time is reached in several steps. A time in the past causes a call at once, but
	// only once in a row. The worker then waits one second, so a stale time cannot cause a busy
	// loop.
	Again time.Time
	// Rests reports that nothing is left to do and that an update or Workers.Sync follows each
	// change of the pod. With a zero Again the next call without an update is then after an hour
	// instead of a minute.
	Rests bool
}

// Forgetter is implemented by a PodSyncer that keeps state about pods between calls.
type Forgetter interface {
	// Forgotten is called once for each forgotten record. The syncer should drop all state about
	// the UID. No call for the UID is in flight. No call for a new record of the UID begins before
	// Forgotten has returned. No lock is held. Forgotten must not block.
	Forgotten(uid types.UID)
}

// OrphanSyncer is implemented by a PodSyncer that can stop pods known only to the container
// runtime. Without an OrphanSyncer, an Update with an Orphan is refused.
type OrphanSyncer interface {
	// SyncTerminatingOrphan stops the containers of o within gracePeriodSeconds (at least 1). After
	// nil, the UID is forgotten at once. All other rules are those of PodSyncer.SyncTerminatingPod.
	SyncTerminatingOrphan(ctx context.Context, o Orphan, gracePeriodSeconds int64) error
}

// SyncRequest holds the arguments common to every call of a PodSyncer.
type SyncRequest struct {
	// Type is the highest type of the updates since the previous call, or UpdateSync without
	// updates.
	Type UpdateType
	// Pod is the newest configuration. MirrorPod is the newest mirror pod, or nil. Both are shared
	// and read only.
	Pod, MirrorPod *v1.Pod
	// Attempt counts the consecutive failures in the current state before the call: 0, 1, 2, ...
	// Cancelled calls are not failures.
	Attempt int
	// LastSync is when the previous call for the UID ended; zero for the first call.
	LastSync time.Time
}

// TerminatingRequest holds the arguments of PodSyncer.SyncTerminatingPod.
type TerminatingRequest struct {
	SyncRequest
	// GracePeriodSeconds is at least 1, and never longer than in an earlier request for the same
	// UID.
	GracePeriodSeconds int64
	// Evicted reports whether a kill of the pod was an eviction.
	Evicted bool
	// ApplyStatus runs every KillOptions.Status registered so far on the given status, in order.
	// ApplyStatus is never nil.
	ApplyStatus func(*v1.PodStatus)
}

// SyncEvent describes one finished call of a PodSyncer, for metrics and logs.
type SyncEvent struct {
	// UID is the UID of the pod. Pod is the pod passed to the call, or nil for an orphan.
	UID types.UID
	Pod *v1.Pod
	// State tells the method: SyncPod, SyncTerminatingPod (or SyncTerminatingOrphan),
	// SyncTerminatedPod.
	State State
	// Type and Attempt are copied from the SyncRequest.
	Type    UpdateType
	Attempt int
	// Received is the oldest Update.Received of the updates since the previous call; zero for a
	// retry, a resync, or a call after a state change.
	Received time.Time
	// Started and Ended are when the call began and returned.
	Started, Ended time.Time
	// Outcome and Err are the results of the call. Only SyncPod has an Outcome.
	Outcome Outcome
	Err     error
	// Interrupted reports that the context was cancelled before the call returned, so Err is no
	// failure.
	Interrupted bool
}
