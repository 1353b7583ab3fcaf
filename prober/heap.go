// SPDX-License-Identifier: Apache-2.0

package prober

import "container/heap"

// agenda is a min-heap of probes by the scheduler's next time: the due time of a waiting probe, or
// the overdue time of a running attempt. Each probe stores its position, so that remove is
// possible. Probes with the same time are ordered by rank, so the order is reproducible.
type agenda []*probe

const notListed = -1

func (a agenda) first() *probe {
	if len(a) == 0 {
		return nil
	}
	return a[0]
}

func (a *agenda) push(p *probe) { heap.Push(a, p) }

// remove takes p out of the heap; p must be in the heap.
func (a *agenda) remove(p *probe) { heap.Remove(a, int(p.index)) }

// fix restores the order after p's time has changed.
func (a *agenda) fix(p *probe) { heap.Fix(a, int(p.index)) }

// Len, Less, Swap, Push and Pop are for package heap.

func (a agenda) Len() int { return len(a) }

func (a agenda) Less(i, j int) bool {
	if !a[i].due.Equal(a[j].due) {
		return a[i].due.Before(a[j].due)
	}
	return a[i].rank < a[j].rank
}

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = int32(i), int32(j)
}

func (a *agenda) Push(p any) {
	p.(*probe).index = int32(len(*a))
	*a = append(*a, p.(*probe))
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	p := (*a)[last]
	(*a)[last] = nil // release the pointer to p
	*a = (*a)[:last]
	p.index = notListed
	return p
}
