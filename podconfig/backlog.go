// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// backlog holds the operations pending for a consumer, coalesced. It holds at most a REMOVE
// followed by a single other operation per pod of a source.
//
// Invariant: an entry keeps the place of its first update, so that the REMOVE of a pod precedes the
// ADD of a pod with the same name. Only the ready mark of a source moves back, because it must
// follow all earlier updates of the source.
type backlog struct {
	entries ordered[uint64, *entry]
	places  map[podKey]place
	marks   map[string]uint64
	// arrivals numbers the entries from 1.
	arrivals uint64
}

type podKey struct {
	source string
	uid    types.UID
}

// place holds the numbers of a pod's entries; 0 means no entry. Invariant: if both are set, live is
// an ADD.
type place struct{ removal, live uint64 }

// entry is an operation on a pod or, without a pod, the ready mark of a source.
type entry struct {
	op     Op
	source string
	pod    *v1.Pod
	ready  bool
	synced bool
}

func newBacklog() *backlog {
	return &backlog{places: make(map[podKey]place), marks: make(map[string]uint64)}
}

// coalesce returns the combination of a pending and a later operation on the same pod; 0 means no
// operation. The content is always the later pod's. A Store sends ADD only after REMOVE. For any
// other ADD the consumer knows the pod, and coalesce returns UPDATE.
func coalesce(pending, next Op) Op {
	switch {
	case pending == OpAdd && next == OpRemove:
		return 0
	case pending == OpAdd:
		return OpAdd
	case next == OpAdd:
		return OpUpdate
	case next == OpReconcile:
		return pending
	}
	return next
}

func (b *backlog) push(u Update) {
	for _, p := range u.Pods {
		b.pushPod(u.Source, u.Op, p)
	}
	if empty := u.Op == OpAdd && len(u.Pods) == 0; empty || u.Synced {
		b.setMark(entry{op: OpAdd, source: u.Source, ready: empty, synced: u.Synced})
	}
}

func (b *backlog) pushPod(source string, op Op, p *v1.Pod) {
	key := podKey{source: source, uid: p.UID}
	at := b.places[key]
	switch {
	case at.live != 0:
		b.merge(key, at, op, p)
	case at.removal == 0:
		n := b.append(&entry{op: op, source: source, pod: p})
		if op == OpRemove {
			at.removal = n
		} else {
			at.live = n
		}
		b.places[key] = at
	case op != OpRemove:
		// After a REMOVE, any operation is an ADD for the consumer.
		at.live = b.append(&entry{op: OpAdd, source: source, pod: p})
		b.places[key] = at
	}
}

// merge combines a further operation with the live entry of a pod.
func (b *backlog) merge(key podKey, at place, op Op, p *v1.Pod) {
	e, _ := b.entries.get(at.live)
	switch left := coalesce(e.op, op); left {
	case 0:
		b.entries.remove(at.live)
		at.live = 0
	case OpRemove:
		e.op, e.pod = left, p
		at = place{removal: at.live}
	default:
		e.op, e.pod = left, p
	}
	b.setPlace(key, at)
}

func (b *backlog) setPlace(key podKey, at place) {
	if at == (place{}) {
		delete(b.places, key)
		return
	}
	b.places[key] = at
}

func (b *backlog) setMark(m entry) {
	if n, ok := b.marks[m.source]; ok {
		earlier, _ := b.entries.get(n)
		m.ready = m.ready || earlier.ready
		m.synced = m.synced || earlier.synced
		b.entries.remove(n)
	}
	b.marks[m.source] = b.append(&m)
}

func (b *backlog) append(e *entry) uint64 {
	b.arrivals++
	b.entries.set(b.arrivals, e)
	return b.arrivals
}

// pop removes and returns the longest run of entries with the same source and operation from the
// front. A mark right behind the run is included, unless the mark was an update of its own.
func (b *backlog) pop() (Update, bool) {
	first, ok := b.entries.front()
	if !ok {
		return Update{}, false
	}
	u := Update{Op: first.op, Source: first.source}
	for n, e := range b.entries.all() {
		switch {
		case e.source != u.Source:
			return u, true
		case e.ready && e != first:
			return u, true
		case e.pod == nil:
			b.entries.remove(n)
			delete(b.marks, e.source)
			u.Synced = e.synced
			return u, true
		case e.op != u.Op:
			return u, true
		}
		b.entries.remove(n)
		b.forget(podKey{source: e.source, uid: e.pod.UID}, n)
		u.Pods = append(u.Pods, e.pod)
	}
	return u, true
}

// forget removes an entry number from the places of its pod.
func (b *backlog) forget(key podKey, n uint64) {
	at := b.places[key]
	if at.removal == n {
		at.removal = 0
	} else {
		at.live = 0
	}
	b.setPlace(key, at)
}
