// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"time"

	"github.com/keelson-dev/keelson/internal/lifecycle"
)

// forget drops e. The lock is held. Invariant: only an entry without a planned call is forgotten,
// so no timer is armed.
func (w *Workers) forget(e *entry) {
	e.forgotten = true
	delete(w.mu.entries, e.uid)
	closeIfOpen(&e.done)
	closeIfOpen(&e.finished)
	if w.forgets != nil {
		w.mu.leaving[e.uid]++
		w.mu.left = append(w.mu.left, e.uid)
	}
	w.leaveKey(e)
}

// tellForgotten calls Forgetter.Forgotten for each forgotten record, and then permits calls for a
// new record of the same UID. The lock is not held.
func (w *Workers) tellForgotten() {
	w.mu.Lock()
	left := w.mu.left
	w.mu.left = nil
	w.mu.Unlock()
	for _, uid := range left {
		w.forgets.Forgotten(uid)
		w.mu.Lock()
		if w.mu.leaving[uid]--; w.mu.leaving[uid] == 0 {
			delete(w.mu.leaving, uid)
			if e, ok := w.mu.entries[uid]; ok {
				w.dispatch(e)
			}
		}
		w.mu.Unlock()
	}
}

// succeed forgets e if e has finished and the last SetPods call does not need the record, and adds a
// record for the pod of the call, if any.
func (w *Workers) succeed(e *entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.desired == nil {
		return
	}
	pod := w.mu.desired[e.uid]
	switch {
	case e.forgotten: // The record was an ended orphan; a source may have configured a pod with the same UID meanwhile.
	case e.phase != phaseFinished || pod != nil && !e.restart:
		return
	default:
		w.forget(e)
	}
	if _, ok := w.mu.entries[e.uid]; pod != nil && !ok && w.mu.life != lifecycle.Stopped {
		w.addPod(pod, time.Now())
	}
}
