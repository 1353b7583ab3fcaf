// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"container/heap"
	"time"
)

// queue holds the entries that wait to be opened, sorted by due time.
type queue struct {
	entries []*entry
	serial  uint64
}

// put adds e to the queue, or changes its due time.
func (q *queue) put(e *entry, due time.Time) {
	q.serial++
	e.due, e.serial = due, q.serial
	if e.place >= 0 {
		heap.Fix(q, e.place)
		return
	}
	heap.Push(q, e)
}

// remove removes e from the queue, if present.
func (q *queue) remove(e *entry) {
	if e.place >= 0 {
		heap.Remove(q, e.place)
	}
}

// next returns the due time of the first entry; false for an empty queue.
func (q *queue) next() (time.Time, bool) {
	if len(q.entries) == 0 {
		return time.Time{}, false
	}
	return q.entries[0].due, true
}

// take removes and returns the first entry. The queue must not be empty.
func (q *queue) take() *entry {
	e := q.entries[0]
	heap.Remove(q, 0)
	return e
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q *queue) Len() int { return len(q.entries) }

func (q *queue) Less(i, j int) bool {
	a, b := q.entries[i], q.entries[j]
	if !a.due.Equal(b.due) {
		return a.due.Before(b.due)
	}
	return a.serial < b.serial
}

func (q *queue) Swap(i, j int) {
	q.entries[i], q.entries[j] = q.entries[j], q.entries[i]
	q.entries[i].place, q.entries[j].place = i, j
}

func (q *queue) Push(x any) {
	if e, ok := x.(*entry); ok {
		e.place = len(q.entries)
		q.entries = append(q.entries, e)
	}
}

func (q *queue) Pop() any {
	last := len(q.entries) - 1
	e := q.entries[last]
	q.entries[last] = nil
	q.entries = q.entries[:last]
	e.place = -1
	return e
}
