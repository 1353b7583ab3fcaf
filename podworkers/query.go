// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Info returns what is known of one pod; false if the UID is unknown.
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

// All yields every pod that is known, in the order they were first seen, as of the moment the loop begins. That
// includes pods the configuration no longer has but whose containers may still run. No lock is held meanwhile.
func (w *Workers) All() iter.Seq2[types.UID, WorkerInfo] {
	return func(yield func(types.UID, WorkerInfo) bool) {
		for _, known := range w.snapshot() {
			if !yield(known.uid, known.info) {
				return
			}
		}
	}
}

// snapshotEntry is one pod of a snapshot, with what All orders it by.
type snapshotEntry struct {
	arrival uint64
	uid     types.UID
	info    WorkerInfo
}

// snapshotOf returns the snapshot of e. The lock is held.
func (w *Workers) snapshotOf(e *entry) snapshotEntry {
	return snapshotEntry{arrival: e.arrival, uid: e.uid, info: w.info(e)}
}

// snapshot returns every pod in the order of arrival. The sorting is done without the lock.
func (w *Workers) snapshot() []snapshotEntry {
	w.mu.Lock()
	all := make([]snapshotEntry, 0, len(w.mu.entries))
	for _, e := range w.mu.entries {
		all = append(all, w.snapshotOf(e))
	}
	w.mu.Unlock()
	slices.SortFunc(all, func(a, b snapshotEntry) int { return cmp.Compare(a.arrival, b.arrival) })
	return all
}

// The predicates below have the kubelet's names and meaning (1.36), so that the small interfaces of other packages are
// met as they are. They differ in what they say of a UID without a record: before the first SyncKnownPods a pod
// may exist that nobody has told of yet, after it the UID is known to be gone. For one pod they change in this order:
//
//	first seen                                CouldHaveRunningContainers
//	termination requested                     IsPodTerminationRequested
//	SyncPod has returned                      ShouldPodContainersBeTerminating
//	SyncTerminatingPod has returned nil       IsPodKnownTerminated, ShouldPodRuntimeBeRemoved,
//	                                          ShouldPodContentBeRemoved if deleted or evicted,
//	                                          no more CouldHaveRunningContainers
//	SyncTerminatedPod has returned nil        ShouldPodBeFinished

// IsPodKnownTerminated reports whether the pod has a record that says that its containers have ended. Unknown: false.
func (w *Workers) IsPodKnownTerminated(uid types.UID) bool {
	return w.ask(uid, (*record).terminated, never)
}

// CouldHaveRunningContainers reports whether containers of the pod may run. Unknown: true until the first
// SyncKnownPods.
func (w *Workers) CouldHaveRunningContainers(uid types.UID) bool {
	return w.ask(uid, func(r *record) bool { return !r.terminated() }, untilSynced)
}

// ShouldPodBeFinished reports whether nothing is left to do for the pod. Unknown: true from the first SyncKnownPods.
func (w *Workers) ShouldPodBeFinished(uid types.UID) bool {
	return w.ask(uid, func(r *record) bool { return r.phase == phaseFinished }, onceSynced)
}

// IsPodTerminationRequested reports whether the pod is ending or has ended. Unknown: false.
func (w *Workers) IsPodTerminationRequested(uid types.UID) bool {
	return w.ask(uid, func(r *record) bool { return r.phase >= phaseStopping }, never)
}

// ShouldPodContainersBeTerminating reports whether SyncPod will not run again for the pod, and is not running, so that
// nothing may be started for it. Unknown: true from the first SyncKnownPods.
func (w *Workers) ShouldPodContainersBeTerminating(uid types.UID) bool {
	return w.ask(uid, func(r *record) bool { return r.phase >= phaseTerminating }, onceSynced)
}

// ShouldPodRuntimeBeRemoved reports whether what the containers of the pod used (volumes, sandboxes) may go. Unknown:
// true from the first SyncKnownPods.
func (w *Workers) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	return w.ask(uid, (*record).terminated, onceSynced)
}

// ShouldPodContentBeRemoved reports whether what the pod leaves behind (dead containers, logs) may go: it has
// terminated, and was evicted or deleted. Unknown: true from the first SyncKnownPods.
//
// The kubelet says so of an evicted pod while its containers still run, so that they can be removed before their exit
// status was read (issue 123782).
func (w *Workers) ShouldPodContentBeRemoved(uid types.UID) bool {
	return w.ask(uid, func(r *record) bool { return r.terminated() && (r.evicted || r.deleted) }, onceSynced)
}

// IsPodForMirrorPodTerminatingByFullName reports whether the pod that holds the exclusive key podFullName is ending but
// has not ended, so that its mirror pod must stay. With the default Options.ExclusiveKey the key is the static pod's
// full name, "name_namespace". Unknown: false.
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

// unknownAnswer is what a predicate says of a UID without a record.
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
