// SPDX-License-Identifier: Apache-2.0

package statusmanager

import "time"

// Class is how urgent a write is.
type Class uint8

// The classes, most urgent first.
const (
	// ClassTerminal: the pod has ended, or is to be deleted. Others wait for its name, its node's resources, its job.
	ClassTerminal Class = iota
	// ClassReady: Ready changes, or the pod runs for the first time. Traffic depends on it.
	ClassReady
	// ClassOther is the rest.
	ClassOther

	classes = 3
)

func (c Class) String() string {
	switch c {
	case ClassTerminal:
		return "terminal"
	case ClassReady:
		return "ready"
	}
	return "other"
}

// agedShare: of so many turns, one is that of a pod that has waited too long behind more urgent ones.
const agedShare = 4

// ticket is a pod's place in a queue; the zero value is in none.
type ticket struct {
	entry      *entry
	queued     bool
	class      Class
	since      time.Time
	prev, next *ticket
}

// queue holds the pods that are to be written now: first in, first out in each class, the more urgent class first. The
// terminal class always comes first; it cannot starve the others, for a pod ends but once. Of the other two, the less
// urgent gets one turn in agedShare once its first pod has waited for ageing.
type queue struct {
	ageing time.Duration
	lists  [classes]ticketList
	turns  int
}

// push puts t into the queue, or moves it up if class is more urgent than where it is.
func (q *queue) push(t *ticket, class Class, now time.Time) {
	switch {
	case t.queued && class >= t.class:
		return
	case t.queued:
		q.lists[t.class].remove(t)
	default:
		t.since = now
	}
	t.queued, t.class = true, class
	q.lists[class].append(t)
}

// remove takes t out, if it is in.
func (q *queue) remove(t *ticket) {
	if t.queued {
		q.lists[t.class].remove(t)
		t.queued = false
	}
}

// pop takes out whose turn it is; nil if nobody waits.
func (q *queue) pop(now time.Time) *ticket {
	t := q.first(now)
	if t != nil {
		q.remove(t)
	}
	return t
}

func (q *queue) first(now time.Time) *ticket {
	terminal, ready, other := q.lists[ClassTerminal].head, q.lists[ClassReady].head, q.lists[ClassOther].head
	switch {
	case terminal != nil:
		return terminal
	case ready == nil:
		return other
	case other == nil || now.Sub(other.since) < q.ageing:
		return ready
	}
	q.turns++
	if q.turns%agedShare == 0 {
		return other
	}
	return ready
}

func (q *queue) len() int {
	n := 0
	for i := range q.lists {
		n += q.lists[i].len
	}
	return n
}

// ticketList is a doubly linked list.
type ticketList struct {
	head, tail *ticket
	len        int
}

func (l *ticketList) append(t *ticket) {
	t.prev, t.next = l.tail, nil
	if l.tail == nil {
		l.head = t
	} else {
		l.tail.next = t
	}
	l.tail = t
	l.len++
}

func (l *ticketList) remove(t *ticket) {
	if t.prev == nil {
		l.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	l.len--
}
