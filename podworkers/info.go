// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"fmt"
	"time"
)

// State is where a pod stands in its one-way life. The words are the kubelet's.
type State uint8

const (
	// StateSync: the pod should run, or waits for its exclusive key.
	StateSync State = iota
	// StateTerminating: the pod's containers must end; some may run.
	StateTerminating
	// StateTerminated: no container of the pod runs or will run; its resources are being released, or have been.
	StateTerminated
)

// String returns the kubelet's word: sync, terminating or terminated.
func (s State) String() string {
	switch s {
	case StateSync:
		return "sync"
	case StateTerminating:
		return "terminating"
	case StateTerminated:
		return "terminated"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// WorkerInfo is a snapshot of what Workers knows of one pod. Times are zero for what has not happened.
type WorkerInfo struct {
	// State is where the pod stands.
	State State
	// Orphan: the last SyncKnownPods did not list the UID, or only the container runtime knows the pod.
	Orphan bool
	// HasConfig: a Pod is or was known, so this is no orphan from the container runtime.
	HasConfig bool
	// Exclusive: the pod has an exclusive key (a static pod, by default).
	Exclusive bool
	// Started: the pod has been allowed to start.
	Started bool
	// Finished: SyncTerminatedPod has returned nil, or there was nothing to end.
	Finished bool
	// Evicted: some kill said so.
	Evicted bool
	// Deleted: the API has a deletion timestamp, or the pod left the configuration.
	Deleted bool
	// Busy: a call is in flight or about to begin.
	Busy bool
	// RestartRequested: an UpdateCreate came while the UID was ending. The first SyncKnownPods that finds it
	// finished forgets it, and leaves it out of its result.
	RestartRequested bool
	// SyncedAt is when the UID was first seen; StartedAt when it was allowed to start; TerminatingAt when its
	// termination was requested; TerminatedAt when its last container was known to have ended.
	SyncedAt, StartedAt, TerminatingAt, TerminatedAt time.Time
	// GracePeriodSeconds is at least 1 once termination is requested, 0 before.
	GracePeriodSeconds int64
	// Attempt counts the failures in a row in this state, and LastError is the newest of them; nil if none.
	Attempt   int
	LastError error
	// NextSync is when the worker calls again by itself; zero if a call is due now, or none is planned.
	NextSync time.Time
}

// info returns the snapshot of r; driven says whether a goroutine is at work on it.
func (r *record) info(driven bool) WorkerInfo {
	return WorkerInfo{
		State:              r.phase.state(),
		Orphan:             r.undesired,
		HasConfig:          r.orphan == nil,
		Exclusive:          r.key != "",
		Started:            !r.startedAt.IsZero(),
		Finished:           r.phase == phaseFinished,
		Evicted:            r.evicted,
		Deleted:            r.deleted,
		Busy:               driven,
		RestartRequested:   r.restart,
		SyncedAt:           r.syncedAt,
		StartedAt:          r.startedAt,
		TerminatingAt:      r.terminatingAt,
		TerminatedAt:       r.terminatedAt,
		GracePeriodSeconds: r.grace,
		Attempt:            r.attempt,
		LastError:          r.lastErr,
		NextSync:           r.retryAt,
	}
}
