// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/lifecycle"
)

// SyncKnownPods records which pods are configured and returns a snapshot of each remaining record.
// Call it regularly, but only after every source of configuration has reported. From the first call
// on, a UID without a record counts as gone.
//
//   - A pod that is not desired is terminated, and its SyncPod call, if any, cancelled.
//   - A finished pod that is not desired, or was asked to restart, is forgotten and not in the
//     result.
//   - An undesired pod that still waits for its exclusive key is forgotten without a call.
//
// A desired pod that is missing from the result should be added, after admission, with an
// UpdateCreate. The map is the caller's. Retain does the same and returns the missing pods only.
func (w *Workers) SyncKnownPods(desired []*v1.Pod) map[types.UID]WorkerInfo {
	known := make(map[types.UID]WorkerInfo, len(desired))
	w.retain(desired, func() {
		for uid, e := range w.mu.entries {
			known[uid] = w.info(e)
		}
	})
	return known
}

// Retain is SyncKnownPods without the snapshot, which is costly for many pods. Retain returns the pods of
// desired without a record.
func (w *Workers) Retain(desired []*v1.Pod) (missing []*v1.Pod) {
	w.retain(desired, func() {
		for _, pod := range desired {
			if pod != nil && w.mu.entries[pod.UID] == nil {
				missing = append(missing, pod)
			}
		}
	})
	return missing
}

// retain does SyncKnownPods. look is called with the lock held, after records were forgotten.
func (w *Workers) retain(desired []*v1.Pod, look func()) {
	w.mu.Lock()
	w.answerUnknown()
	w.mu.rounds++
	for _, pod := range desired {
		if pod != nil {
			w.desire(pod.UID)
		}
	}
	interrupts := w.syncKnown()
	look()
	w.mu.Unlock()
	for _, interrupt := range interrupts {
		interrupt()
	}
	w.tellForgotten()
}

// desire marks the record of uid, if any, as desired for the next syncKnown, and returns the record. The
// lock is held.
func (w *Workers) desire(uid types.UID) *entry {
	e := w.mu.entries[uid]
	if e != nil {
		e.round = w.mu.rounds
	}
	return e
}

// answerUnknown makes every UID without a record count as gone from now on. The lock is held.
func (w *Workers) answerUnknown() {
	if !w.mu.synced {
		close(w.synced)
	}
	w.mu.synced = true
	for uid, done := range w.mu.unknown {
		close(done)
		delete(w.mu.unknown, uid)
	}
}

// syncKnown terminates pods that are not desired and forgets finished records. syncKnown returns
// the calls to cancel. The lock is held.
func (w *Workers) syncKnown() (interrupts []func()) {
	now := time.Now()
	for _, e := range w.mu.entries {
		forget, cause := e.known(e.round == w.mu.rounds, now)
		if forget {
			w.forget(e)
			continue
		}
		if cause != nil {
			interrupts = append(interrupts, e.interrupter(cause))
		}
		w.react(e)
	}
	return interrupts
}

// SetPods takes the complete list of configured pods. Call it whenever the list may have changed.
// SetPods is the level-triggered way to drive Workers and replaces UpdatePod and SyncKnownPods:
//
//   - A pod without a record gets a record and starts.
//   - A pod whose metadata or spec differs from the last call is synced with its new content. A
//     change of the status alone is recorded without a sync, unless the phase is terminal or the
//     condition of a readiness gate changed. A static pod whose manifest changed under the same UID
//     (annotation kubernetes.io/config.hash) is terminated and started again.
//   - A known pod that is missing from pods is terminated.
//   - From the first call on, SetPods forgets finished records. A pod that returns while its
//     earlier record, or an orphan of its UID, is ending starts as soon as the earlier record has
//     ended.
//
// complete reports that every source of configuration has reported. From the first complete call
// on, an unknown UID is known to be gone, as from the first SyncKnownPods.
//
// The cost of a call grows with the number of pods, so a large node with frequent changes should
// use UpdatePod. Make one call at a time. SetPods keeps the pods, but not the slice: neither the
// caller nor a syncer may write to the pods.
//
// The error joins an ErrInvalidUpdate for each invalid pod; valid pods are recorded nevertheless.
// After the context of Run has ended, SetPods returns ErrStopped.
func (w *Workers) SetPods(pods []*v1.Pod, complete bool) error {
	desired := make(map[types.UID]*v1.Pod, len(pods))
	var invalid []error
	for _, pod := range pods {
		if err := (&Update{Type: UpdateCreate, Pod: pod}).validate(); err != nil {
			invalid = append(invalid, err)
			continue
		}
		desired[pod.UID] = pod
	}
	inOrder := slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool { return pod == nil || desired[pod.UID] != pod })
	interrupts, err := w.setDesired(desired, inOrder, complete)
	if err != nil {
		return err
	}
	for _, interrupt := range interrupts {
		interrupt()
	}
	w.tellForgotten()
	return errors.Join(invalid...)
}

// setDesired applies SetPods. It returns the calls to cancel. Unknown UIDs count as gone only after
// every desired pod has a record: otherwise StopUnknown would stop a pod that is about to be added.
func (w *Workers) setDesired(desired map[types.UID]*v1.Pod, inOrder []*v1.Pod, complete bool) (interrupts []func(), err error) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.life == lifecycle.Stopped {
		return nil, ErrStopped
	}
	w.mu.rounds++
	for uid, pod := range desired {
		e := w.desire(uid)
		if e == nil {
			continue
		}
		for _, u := range e.configure(w.mu.desired[uid], pod) {
			if cause := e.apply(u, now); cause != nil {
				interrupts = append(interrupts, e.interrupter(cause))
			}
		}
		w.react(e)
	}
	w.mu.desired = desired
	more := w.syncKnown()
	for _, pod := range inOrder {
		if _, ok := w.mu.entries[pod.UID]; !ok {
			w.addPod(pod, now)
		}
	}
	if complete {
		w.answerUnknown()
	}
	return append(interrupts, more...), nil
}

// addPod adds a record for a pod of the last SetPods call. The lock is held.
func (w *Workers) addPod(pod *v1.Pod, now time.Time) {
	w.react(w.add(Update{Type: UpdateCreate, Pod: pod}, now))
}
