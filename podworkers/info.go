// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"fmt"
	"time"
)

// State is the stage of a pod in its one-way life cycle. The words are the kubelet's.
type State uint8

const (
	// StateSync: the pod should run, or waits for its exclusive key.
	StateSync State = iota
	// StateTerminating: the pod's containers must end; some may run.
	StateTerminating
	// StateTerminated: no container of the pod runs or will run; its resources are being released,
	// or have been.
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

// WorkerInfo is a snapshot of the record of one pod. The time of an event that has not happened is
// zero.
type WorkerInfo struct {
	// State is the stage of the pod.
	State State
	// Orphan: the last SyncKnownPods did not list the UID, or only the container runtime knows the
	// pod.
	Orphan bool
	// HasConfig: a Pod is or was known for the UID. False means an orphan from the container
	// runtime.
	HasConfig bool
	// Exclusive: the pod is static, so that it does not run beside another static pod of the same
	// name and namespace.
	Exclusive bool
	// Started: the pod has been allowed to start.
	Started bool
	// Finished: SyncTerminatedPod has returned nil.
	Finished bool
	// Evicted: a kill had KillOptions.Evict set.
	Evicted bool
	// Deleted: the pod has a deletion timestamp, left the configuration, or is an orphan.
	Deleted bool
	// Busy: a call is in flight or about to begin.
	Busy bool
	// RestartRequested: an UpdateCreate came while the UID was ending. The first SyncKnownPods call
	// that finds the record finished forgets the record and leaves the UID out of the result.
	RestartRequested bool
	// SyncedAt is when the UID was first seen; StartedAt when it was allowed to start;
	// TerminatingAt when its termination was requested; TerminatedAt when its last container was
	// known to have ended.
	SyncedAt, StartedAt, TerminatingAt, TerminatedAt time.Time
	// GracePeriodSeconds is at least 1 once termination is requested, 0 before.
	GracePeriodSeconds int64
	// Attempt counts the consecutive failures in the current state. LastError is the newest
	// failure, or nil.
	Attempt   int
	LastError error
	// NextSync is the time of the next scheduled call; zero if a call is due now or no call is
	// scheduled.
	NextSync time.Time
}

// info returns the snapshot of r; driven reports whether a goroutine works on the record.
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
