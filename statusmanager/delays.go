// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"container/heap"
	"time"
)

// delays holds the pods to write later, ordered by time.
type delays struct{ heap delayHeap }

// wait is a pod's position in delays; the zero value is in no delays.
type wait struct {
	entry *entry
	until time.Time
	place int // in the heap, from 1; 0 if absent
}

// set adds w, or moves w if present.
func (d *delays) set(w *wait, until time.Time) {
	w.until = until
	if w.place > 0 {
		heap.Fix(&d.heap, w.place-1)
		return
	}
	heap.Push(&d.heap, w)
}

// remove removes w, if present.
func (d *delays) remove(w *wait) {
	if w.place > 0 {
		heap.Remove(&d.heap, w.place-1)
	}
}

// pop removes and returns the next due wait, or nil.
func (d *delays) pop(now time.Time) *wait {
	if len(d.heap) == 0 || d.heap[0].until.After(now) {
		return nil
	}
	return heap.Pop(&d.heap).(*wait)
}

// next returns the time of the earliest wait, or false.
func (d *delays) next() (time.Time, bool) {
	if len(d.heap) == 0 {
		return time.Time{}, false
	}
	return d.heap[0].until, true
}

// delayHeap is a heap.Interface.
type delayHeap []*wait

func (h delayHeap) Len() int           { return len(h) }
func (h delayHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h delayHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

// Push and Pop are container/heap's.
func (h *delayHeap) Push(x any) {
	w := x.(*wait)
	*h = append(*h, w)
	w.place = len(*h)
}

func (h *delayHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	w.place = 0
	return w
}
