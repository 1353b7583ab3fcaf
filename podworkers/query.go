// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"cmp"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/sorted"
)

// Info returns the snapshot of one pod; false if the UID is unknown.
func (w *Workers) Info(uid types.UID) (WorkerInfo, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.mu.entries[uid]
	if !ok {
		return WorkerInfo{}, false
	}
	return w.info(e), true
}

// info returns the snapshot of e. The lock is held.
func (w *Workers) info(e *entry) WorkerInfo {
	i := e.info(e.driven)
	if w.mu.drive == nil {
		i.NextSync = time.Time{} // No timer runs.
	}
	return i
}

// All yields every pod with a record, as of the start of the loop, in the order in which the pods
// were first seen. Pods that left the configuration are included until their record is forgotten.
// No lock is held during the loop.
func (w *Workers) All() iter.Seq2[types.UID, WorkerInfo] {
	return func(yield func(types.UID, WorkerInfo) bool) {
		for _, known := range w.snapshot() {
			if !yield(known.uid, known.info) {
				return
			}
		}
	}
}

// snapshotEntry is one pod of a snapshot. All sorts the pods by arrival.
type snapshotEntry struct {
	arrival uint64
	uid     types.UID
	info    WorkerInfo
}

// snapshot returns every pod in the order of arrival. The sorting is done without the lock.
func (w *Workers) snapshot() []snapshotEntry {
	w.mu.Lock()
	all := make([]snapshotEntry, 0, len(w.mu.entries))
	for _, e := range w.mu.entries {
		all = append(all, snapshotEntry{arrival: e.arrival, uid: e.uid, info: w.info(e)})
	}
	w.mu.Unlock()
	sorted.By(all, func(a, b snapshotEntry) int { return cmp.Compare(a.arrival, b.arrival) })
	return all
}

// The predicates below have the kubelet's names and meaning (1.36), so that Workers satisfies the
// small interfaces of other packages. Each predicate states its answer for a UID without a record
// (Unknown). Until Synced closes, such a pod may exist. Afterwards the UID counts as gone. For one
// pod the answers change in this order:
//
//	first seen                                CouldHaveRunningContainers
//	termination requested                     IsPodTerminationRequested
//	SyncPod has returned                      ShouldPodContainersBeTerminating
//	SyncTerminatingPod has returned nil       IsPodKnownTerminated, ShouldPodRuntimeBeRemoved,
//	                                          ShouldPodContentBeRemoved if deleted or evicted,
//	                                          no more CouldHaveRunningContainers
//	SyncTerminatedPod has returned nil        ShouldPodBeFinished

// IsPodKnownTerminated reports whether a record exists and all containers of the pod have ended.
// Unknown: false.
func (w *Workers) IsPodKnownTerminated(uid types.UID) bool {
	return w.ask(uid, (*record).terminated, never)
}

// CouldHaveRunningContainers reports whether containers of the pod may run. Unknown: true until
// Synced closes.
func (w *Workers) CouldHaveRunningContainers(uid types.UID) bool {
	return w.ask(uid, func(r *record) bool { return !r.terminated() }, untilSynced)
}

// ShouldPodBeFinished reports whether nothing is left to do for the pod. Unknown: true once Synced
// has closed.
func (w *Workers) ShouldPodBeFinished(uid types.UID) bool {
	return w.ask(uid, func(r *record) bool { return r.phase == phaseFinished }, onceSynced)
}

// IsPodTerminationRequested reports whether the pod is ending or has ended. Unknown: false.
func (w *Workers) IsPodTerminationRequested(uid types.UID) bool {
	return w.ask(uid, func(r *record) bool { return r.phase >= phaseStopping }, never)
}

// ShouldPodContainersBeTerminating reports whether SyncPod is not running and will not run again
// for the pod, so that no container of the pod may be started. Unknown: true once Synced has
// closed.
func (w *Workers) ShouldPodContainersBeTerminating(uid types.UID) bool {
	return w.ask(uid, func(r *record) bool { return r.phase >= phaseTerminating }, onceSynced)
}

// ShouldPodRuntimeBeRemoved reports whether the resources of the pod's containers (volumes,
// sandboxes) may be removed. Unknown: true once Synced has closed.
func (w *Workers) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	return w.ask(uid, (*record).terminated, onceSynced)
}

// ShouldPodContentBeRemoved reports whether dead containers and logs of the pod may be removed: the
// pod has terminated, and was evicted or deleted. Unknown: true once Synced has closed.
//
// The kubelet answers true for an evicted pod while its containers still run, so containers can be
// removed before their exit status was read (issue 123782).
func (w *Workers) ShouldPodContentBeRemoved(uid types.UID) bool {
	return w.ask(uid, func(r *record) bool { return r.terminated() && (r.evicted || r.deleted) }, onceSynced)
}

// IsPodForMirrorPodTerminatingByFullName reports whether the static pod that holds the full name
// podFullName, "name_namespace", is terminating and has not ended, so that its mirror pod must
// stay. Unknown: false.
func (w *Workers) IsPodForMirrorPodTerminatingByFullName(podFullName string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue, ok := w.mu.keys[podFullName]
	if !ok {
		return false
	}
	return w.mu.entries[queue.holder].phase.state() == StateTerminating
}

// terminated reports whether the pod's containers are known to have ended.
func (r *record) terminated() bool { return r.phase >= phaseTerminated }

// unknownAnswer is the answer of a predicate for a UID without a record.
type unknownAnswer uint8

const (
	never unknownAnswer = iota
	untilSynced
	onceSynced
)

// ask answers a predicate from the record of uid, or else as unknown says.
func (w *Workers) ask(uid types.UID, of func(*record) bool, unknown unknownAnswer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, ok := w.mu.entries[uid]; ok {
		return of(&e.record)
	}
	switch unknown {
	case untilSynced:
		return !w.mu.synced
	case onceSynced:
		return w.mu.synced
	}
	return false
}
