// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodSyncer does the work that Workers decides about. Each method brings the real world nearer to what is asked and
// may be called again and again with the same request, so it must converge and not repeat itself.
//
// Concurrency: calls for different pods run at the same time. For one UID there is at most one call at a time, over
// all methods together, and each happens before the next. No lock is held, so a syncer may call any method of Workers
// except KillPod on its own pod, which would wait for itself.
//
// Order for one UID: SyncPod any number of times, SyncTerminatingPod until it returns nil, SyncTerminatedPod until it
// returns nil, then nothing, until SyncKnownPods has forgotten the UID.
//
// Context: each call has its own, derived from that of Run and cancelled as soon as the call returns, so nothing that
// lives longer (probes, watches, containers) may be tied to it. It is cancelled earlier when the call has become
// pointless, with ErrTerminationRequested or ErrGracePeriodShortened as its context.Cause; the method should then
// return soon, with any error. A call that ignores it only delays the next one.
//
// Errors: nil means done. An error is retried after Options.Backoff, or as ErrTransient and RetryAfter say. The error
// is logged, so it must not hold secrets. A panic is not recovered.
type PodSyncer interface {
	// SyncPod makes the pod run as r.Pod says. terminal reports that it has run its course on its own, all
	// containers ended for good (phase Succeeded or Failed); the pod is then terminated without being asked. It is
	// ignored beside an error.
	SyncPod(ctx context.Context, r SyncRequest) (terminal bool, err error)
	// SyncTerminatingPod stops the pod's containers within r.GracePeriodSeconds. Nil is a promise that no container
	// of the pod runs any more, and that none will. If the grace period shrinks meanwhile, ctx is cancelled with
	// ErrGracePeriodShortened and the method called again with the shorter one.
	SyncTerminatingPod(ctx context.Context, r TerminatingRequest) error
	// SyncTerminatedPod releases what the pod held (volumes, cgroups, its final status). Nil makes the pod finished.
	SyncTerminatedPod(ctx context.Context, r SyncRequest) error
}

// OrphanSyncer is implemented by a PodSyncer that can end pods of which only the container runtime knows. Without it
// an Update with an Orphan is refused.
type OrphanSyncer interface {
	// SyncTerminatingOrphan stops the containers of o within gracePeriodSeconds (at least 1). Nil ends the matter:
	// the UID is forgotten at once. All else is as in PodSyncer.SyncTerminatingPod.
	SyncTerminatingOrphan(ctx context.Context, o Orphan, gracePeriodSeconds int64) error
}

// SyncRequest is what every call of a PodSyncer is told.
type SyncRequest struct {
	// Type is the highest type of the updates that this call is the first to see; UpdateSync if there are none.
	Type UpdateType
	// Pod is the newest configuration, and MirrorPod its newest mirror pod or nil. They are shared: read only.
	Pod, MirrorPod *v1.Pod
	// Attempt counts the failures in a row in this state before this call: 0, 1, 2, ... Calls that were cancelled
	// are not failures.
	Attempt int
	// LastSync is when the previous call for this UID ended; zero if this is the first.
	LastSync time.Time
}

// TerminatingRequest is what PodSyncer.SyncTerminatingPod is told.
type TerminatingRequest struct {
	SyncRequest
	// GracePeriodSeconds is at least 1, and never longer than in an earlier request for this UID.
	GracePeriodSeconds int64
	// Evicted says that one of the kills was an eviction.
	Evicted bool
	// ApplyStatus runs every KillOptions.Status registered so far on the given status, in order. It is never nil.
	ApplyStatus func(*v1.PodStatus)
}

// SyncEvent describes one finished call of a PodSyncer, for metrics and logs.
type SyncEvent struct {
	// UID is the pod's, and Pod what the call was given; Pod is nil for an orphan.
	UID types.UID
	Pod *v1.Pod
	// State says which method was called: SyncPod, SyncTerminatingPod (or SyncTerminatingOrphan), SyncTerminatedPod.
	State State
	// Type and Attempt are those of the SyncRequest.
	Type    UpdateType
	Attempt int
	// Received is the oldest Update.Received that the call was the first to see; zero if the call was a retry, a
	// resync, or followed from the one before.
	Received time.Time
	// Started and Ended are when the call began and returned.
	Started, Ended time.Time
	// Terminal and Err are what the call returned.
	Terminal bool
	Err      error
	// Interrupted says that the context had been cancelled before the call returned, so Err is no failure.
	Interrupted bool
}
