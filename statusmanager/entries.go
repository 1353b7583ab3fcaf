// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Observed tells of a pod as the API server has it, from a watch or list: the pod itself, or the mirror pod of a static
// pod. What is older than what is known already is ignored. If the server has something else than what the agent says, it
// is written again; if a readiness gate changed, Ready follows. A pod may be observed before it has a status. pod must not
// be written to any more.
func (m *Manager) Observed(pod *v1.Pod) {
	if pod == nil || pod.UID == "" {
		return
	}
	m.mu.Lock()
	if m.mu.life == lifeStopped {
		m.mu.Unlock()
		return
	}
	e := m.observed(pod)
	if e == nil || !e.observe(pod) {
		m.mu.Unlock()
		return
	}
	m.serverIsThere()
	m.mu.Unlock()
	m.follow(e)
	m.reconsider(e)
}

// observed returns the entry that an object of the API server belongs to; nil if it is a mirror pod whose static pod is
// not known yet. The lock is held.
func (m *Manager) observed(pod *v1.Pod) *entry {
	uid := pod.UID
	if isMirror(pod) {
		key := keyOf(pod)
		m.mu.mirrors[key] = pod
		static, ok := m.mu.static[key]
		if !ok {
			return nil
		}
		uid = static
	}
	e := m.mu.entries[uid]
	if e == nil || e.removed {
		e = m.revive(uid, e)
	}
	return e
}

// follow makes the status on hand follow what is known of the server: its readiness gates, and an end of the pod that
// somebody else has brought about. No lock is held.
func (m *Manager) follow(e *entry) {
	m.mu.Lock()
	astray := !e.removed && e.astray()
	m.mu.Unlock()
	if !astray {
		return
	}
	// The error would say that the phase is the server's, which is what is wanted.
	_, _ = m.propose(e.uid, func(r *record) *proposal {
		if r.status == nil {
			return nil
		}
		return &proposal{pod: r.pod, status: r.status.DeepCopy()}
	})
}

// reconsider schedules a write for e if one is called for.
func (m *Manager) reconsider(e *entry) {
	if m.options.Patcher == nil {
		return
	}
	m.mu.Lock()
	r, uid := e.record, e.uid
	skip := e.removed || e.busy || e.status == nil
	if e.busy {
		e.again = true
	}
	m.mu.Unlock()
	if skip {
		return
	}
	s, err := r.next(m.facts(uid, &r), time.Now())
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case e.removed:
	case err != nil || s.request != RequestNone || e.version != r.version:
		m.schedule(e) // an error is met again, and told, by whoever writes
	case !e.busy:
		e.settle(&s, nil, time.Now())
		e.acknowledged()
	}
}

// facts asks others about a pod. No lock is held.
func (m *Manager) facts(uid types.UID, r *record) facts {
	f := facts{canGet: m.getter != nil}
	switch {
	case r.status == nil:
	case m.options.Safety != nil:
		f.mayRun = m.options.Safety.MayHaveRunningContainers(uid)
	default:
		f.mayRun = !r.finished && anyRunning(r.status)
	}
	return f
}

// meetMirror tells the entry of a static pod about a mirror pod that came before it. The lock is held.
func (m *Manager) meetMirror(e *entry, pod *v1.Pod) {
	if !isStatic(pod) {
		return
	}
	key := keyOf(pod)
	m.mu.static[key] = e.uid
	if mirror, ok := m.mu.mirrors[key]; ok {
		e.record.pod = pod
		e.observe(mirror)
	}
}

// lookUp takes in what Pods has of the pod, and reports whether that is news. No lock is held.
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
	return e.observe(object)
}

// seed takes in what Pods has of a pod of which nothing is known yet, so that its first status is compared with that. No
// lock is held.
func (m *Manager) seed(pod *v1.Pod) {
	m.mu.Lock()
	e := m.mu.entries[pod.UID]
	known := e != nil && !e.removed && (e.status != nil || e.remote.status != nil)
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
	if m.mu.life == lifeStopped {
		return
	}
	if e = m.mu.entries[pod.UID]; e == nil || e.removed {
		e = m.revive(pod.UID, e)
	}
	e.observe(object)
}

// ask returns what Pods has of a pod, or of its mirror; nil if nothing. No lock is held.
func (m *Manager) ask(pod *v1.Pod) *v1.Pod {
	if m.options.Pods == nil || pod == nil {
		return nil
	}
	look := m.options.Pods.Pod
	if isStatic(pod) {
		look = m.options.Pods.Mirror
	}
	if object, ok := look(pod.UID); ok {
		return object
	}
	return nil
}

// translate returns the UID of the static pod that uid, if it is that of a mirror pod, stands for.
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

// revive returns a new entry for uid. If e, the one before, is still busy, it is used again, so that there is never more
// than one request for a UID. The lock is held.
func (m *Manager) revive(uid types.UID, e *entry) *entry {
	if e == nil {
		e = &entry{uid: uid}
		e.ticket.entry, e.wait.entry = e, e
		m.mu.entries[uid] = e
		return e
	}
	e.record = record{remote: remote{doubt: true}}
	e.removed, e.again = false, false
	e.failures, e.notUntil, e.holdUntil, e.retry = 0, time.Time{}, time.Time{}, retryOnTime
	e.epoch++
	return e
}

// forgetIfEmpty takes back an entry of which nothing is known. The lock is held.
func (m *Manager) forgetIfEmpty(e *entry) {
	if e.status == nil && e.remote.status == nil {
		m.drop(e)
	}
}

func (m *Manager) uids() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	uids := make([]types.UID, 0, len(m.mu.entries))
	for uid, e := range m.mu.entries {
		if !e.removed {
			uids = append(uids, uid)
		}
	}
	return uids
}

func (m *Manager) remove(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.mu.entries[uid]; e != nil {
		m.drop(e)
	}
}

// drop forgets e, as soon as it is not busy. The lock is held.
func (m *Manager) drop(e *entry) {
	m.mu.queue.remove(&e.ticket)
	m.mu.delays.remove(&e.wait)
	if e.pod != nil && isStatic(e.pod) {
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

// acknowledged wakes those who wait for a version. The lock is held.
func (e *entry) acknowledged() {
	if e.acks != nil {
		close(e.acks)
		e.acks = nil
	}
}
