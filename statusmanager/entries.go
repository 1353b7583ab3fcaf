// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/lifecycle"
	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Observed records a pod as stored by the API server, from a watch or list: the pod itself, or the
// mirror pod of a static pod. Objects older than the newest known object are ignored. If the stored
// status differs from the agent's status, the Manager writes the status again. If a readiness gate
// changed, Ready follows. A pod may be observed before its first status. The caller must not write
// to pod afterwards.
func (m *Manager) Observed(pod *v1.Pod) {
	if pod == nil || pod.UID == "" {
		return
	}
	m.mu.Lock()
	if m.mu.life == lifecycle.Stopped {
		m.mu.Unlock()
		return
	}
	e := m.observed(pod)
	if e == nil || !e.sees(pod) {
		m.mu.Unlock()
		return
	}
	m.mu.Unlock()
	m.follow(e)
	m.reconsider(e)
}

// observed returns the entry for an object of the API server; nil for a mirror pod without a known
// static pod. The lock is held.
func (m *Manager) observed(pod *v1.Pod) *entry {
	uid := pod.UID
	if podfacts.IsMirror(pod) {
		key := keyOf(pod)
		m.mu.mirrors[key] = pod
		static, ok := m.mu.static[key]
		if !ok {
			return nil
		}
		uid = static
	}
	return m.entry(uid)
}

// sees records an object of the API server, and reports whether the object is newer. A new deletion
// timestamp or a new UID counts as news, because the Manager may have to act at once. The lock is
// held.
func (e *entry) sees(object *v1.Pod) bool {
	before := e.remote
	if !e.observe(object) {
		return false
	}
	if e.remote.deleting != before.deleting || e.remote.ref.UID != before.ref.UID {
		e.budget.news()
	}
	return true
}

// follow adapts the current status to the newest object of the server: to its readiness gates, and
// to an end of the pod set by another writer. No lock is held.
func (m *Manager) follow(e *entry) {
	m.mu.Lock()
	astray := !e.removed && e.astray()
	m.mu.Unlock()
	if !astray {
		return
	}
	// The error would only report that the phase follows the server, as intended.
	_, _ = m.propose(e.uid, func(r *record) *proposal {
		if r.status == nil {
			return nil
		}
		return &proposal{pod: r.pod, status: draftOf(r.status), source: fromServer}
	})
}

// reconsider schedules a write for e, if necessary.
func (m *Manager) reconsider(e *entry) {
	if m.options.Patcher == nil {
		return
	}
	m.mu.Lock()
	r, epoch := e.record, e.epoch
	if e.busy {
		e.again = true
		m.mu.Unlock()
		return
	}
	m.mu.Unlock()
	s, err := r.next(m.facts(e.uid, &r), time.Now())
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case e.removed, e.epoch != epoch: // s is about an earlier record
	case e.held && !s.held: // the end of the pod may be told now
		e.budget.news()
		m.schedule(e)
	case err != nil || s.request != RequestNone:
		m.schedule(e) // the next write meets the error again and reports it
	default:
		e.settle(&s, nil, time.Now())
		e.acknowledged()
	}
}

// facts calls the seams for a pod. No lock is held.
func (m *Manager) facts(uid types.UID, r *record) facts {
	f := facts{canGet: m.getter != nil, canSet: m.setter != nil}
	switch {
	case r.status == nil:
	case m.options.Safety != nil:
		f.mayRun = m.options.Safety.MayHaveRunningContainers(uid)
	default:
		f.mayRun = !r.finished && anyRunning(r.status)
	}
	return f
}

// meetMirror passes a mirror pod that was observed earlier to the entry of its static pod. The lock
// is held.
func (m *Manager) meetMirror(e *entry, pod *v1.Pod) {
	if !podfacts.IsStatic(pod) {
		return
	}
	key := keyOf(pod)
	m.mu.static[key] = e.uid
	if mirror, ok := m.mu.mirrors[key]; ok {
		e.sees(mirror)
	}
}

// endsHere reports whether after is the first status with a terminal phase.
func endsHere(before, after *v1.PodStatus) bool {
	return podfacts.IsTerminal(after.Phase) && (before == nil || !podfacts.IsTerminal(before.Phase))
}

// lookUp records the object from Options.Pods, and reports whether the object is newer. No lock is
// held.
func (m *Manager) lookUp(e *entry) (news bool) {
	m.mu.Lock()
	pod := e.pod
	m.mu.Unlock()
	object := m.ask(pod)
	if object == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.sees(object)
}

// seed records the object from Options.Pods for a pod without a status, so that its first status is
// compared with the object. No lock is held.
func (m *Manager) seed(pod *v1.Pod) {
	m.mu.Lock()
	e := m.mu.entries[pod.UID]
	known := e != nil && !e.removed // an entry has a status, or the object of a pod
	m.mu.Unlock()
	if known {
		return
	}
	object := m.ask(pod)
	if object == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(pod.UID).sees(object)
}

// ask returns the object of a pod, or of its mirror pod, from Options.Pods, or nil. No lock is
// held.
func (m *Manager) ask(pod *v1.Pod) *v1.Pod {
	if m.options.Pods == nil || pod == nil {
		return nil
	}
	look := m.options.Pods.Pod
	if podfacts.IsStatic(pod) {
		look = m.options.Pods.Mirror
	}
	if object, ok := look(pod.UID); ok {
		return object
	}
	return nil
}

// translate maps the UID of a mirror pod to the UID of its static pod. Any other UID is returned
// unchanged.
func (m *Manager) translate(uid types.UID) types.UID {
	m.mu.Lock()
	_, known := m.mu.entries[uid]
	var found types.UID
	if !known {
		for _, pod := range m.mu.mirrors {
			if pod.UID == uid {
				found = m.mu.static[keyOf(pod)]
				break
			}
		}
	}
	m.mu.Unlock()
	switch {
	case known:
		return uid
	case found != "":
		return found
	case m.options.Pods != nil:
		if static, ok := m.options.Pods.Static(uid); ok {
			return static
		}
	}
	return uid
}

// entry returns the entry of a pod. If the pod has none, the entry is new. If the removed entry of
// the UID is still busy, it is used again with a new record, so that a UID never has more than one
// request. The lock is held.
func (m *Manager) entry(uid types.UID) *entry {
	e := m.mu.entries[uid]
	switch {
	case e == nil:
		e = &entry{uid: uid}
		e.ticket.entry, e.wait.entry = e, e
		m.mu.entries[uid] = e
	case e.removed:
		e.record = record{remote: remote{doubt: true}}
		e.removed, e.again = false, false
		e.failures, e.notUntil, e.holdUntil, e.pace = 0, time.Time{}, time.Time{}, paceUnknown
	default:
		return e
	}
	m.mu.epoch++
	e.epoch = m.mu.epoch
	return e
}

// forgetIfEmpty drops an entry without a status. The lock is held.
func (m *Manager) forgetIfEmpty(e *entry) {
	if e.status == nil && e.remote.status == nil {
		m.drop(e)
	}
}

// entries returns the entries for which f returns true. f is called with the lock held.
func (m *Manager) entries(f func(*entry) bool) (all []*entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.mu.entries {
		if !e.removed && f(e) {
			all = append(all, e)
		}
	}
	return all
}

func (m *Manager) remove(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.mu.entries[uid]; e != nil {
		m.drop(e)
	}
}

// drop forgets e, as soon as e is not busy. The lock is held.
func (m *Manager) drop(e *entry) {
	m.mu.lanes.remove(&e.ticket)
	m.mu.delays.remove(&e.wait)
	if e.pod != nil && podfacts.IsStatic(e.pod) {
		key := keyOf(e.pod)
		if m.mu.static[key] == e.uid {
			delete(m.mu.static, key)
		}
	}
	e.acknowledged()
	e.removed = true
	if !e.busy {
		delete(m.mu.entries, e.uid)
	}
}

func (m *Manager) removeMirror(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(pod)
	if now, ok := m.mu.mirrors[key]; ok && now.UID == pod.UID {
		delete(m.mu.mirrors, key)
	}
}

// acknowledged wakes callers that wait for a version. The lock is held.
func (e *entry) acknowledged() {
	if e.acks != nil {
		close(e.acks)
		e.acks = nil
	}
}
