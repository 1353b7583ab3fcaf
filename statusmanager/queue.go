// SPDX-License-Identifier: Apache-2.0

package statusmanager

import "time"

// Class is how urgent a write is.
type Class uint8

// The classes, most urgent first.
const (
	// ClassTerminal: the pod has ended, or is to be deleted. Until the status is written, the pod's
	// name and resources on the node are in use, and a Job waits for the pod.
	ClassTerminal Class = iota
	// ClassReady: Ready changes, or the pod runs for the first time. Traffic depends on Ready.
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

// agedShare: one in agedShare turns goes to a pod that has waited too long behind more urgent pods.
const agedShare = 4

// ticket is a pod's position in a queue; the zero value is in no queue.
type ticket struct {
	entry      *entry
	lane       lane // the last lane of the ticket
	queued     bool
	class      Class
	since      time.Time
	prev, next *ticket
}

// queue holds the pods to write now: the most urgent class first, first in, first out in each
// class. The terminal class always comes first: a pod ends only once, so that pods of the other classes
// do not starve. When the first pod of ClassOther has waited for the time ageing, ClassOther gets one
// turn in agedShare.
type queue struct {
	ageing time.Duration
	lists  [classes]ticketList
	turns  int
}

// push adds t to the queue, or moves t up if class is more urgent than its present class.
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

// remove removes t, if present.
func (q *queue) remove(t *ticket) {
	if t.queued {
		q.lists[t.class].remove(t)
		t.queued = false
	}
}

// pop removes and returns the next ticket, or nil.
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

// oldest returns the earliest waiting time among the first pods of all classes; zero for an empty
// queue.
func (q *queue) oldest() (since time.Time) {
	for i := range q.lists {
		if t := q.lists[i].head; t != nil && (since.IsZero() || t.since.Before(since)) {
			since = t.since
		}
	}
	return since
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
