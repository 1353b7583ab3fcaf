// SPDX-License-Identifier: Apache-2.0

package feature

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"
)

// Slot stores one value of type T per pod for a feature. The value is part of the pod's record and
// is deleted with the record. The methods are safe for concurrent use.
type Slot[T any] struct {
	table *Table
	index int // in Table.slots
}

// NewSlot adds a slot to every record of t.
func NewSlot[T any](t *Table) *Slot[T] { return newSlot[T](t, slotState{}) }

// NewLastingSlot adds a slot whose values stay until Drop, even if the node does not know the pod. Use
// a lasting slot for remains of earlier agents, and for facts about a pod that no source has listed yet.
func NewLastingSlot[T any](t *Table) *Slot[T] {
	return newSlot[T](t, slotState{lasting: true})
}

func newSlot[T any](t *Table, state slotState) *Slot[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slots = append(t.slots, state)
	return &Slot[T]{t, len(t.slots) - 1}
}

// in returns the value in r, nil if none is stored. The table's lock is held.
func (s *Slot[T]) in(r record) *T {
	if s.index >= len(r) {
		return nil
	}
	p, _ := r[s.index].(*T)
	return p
}

// Get returns the value stored for a pod, or the zero value if none is stored.
func (s *Slot[T]) Get(uid types.UID) (value T) {
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	if p := s.in(s.table.records[uid]); p != nil {
		return *p
	}
	return value
}

// Set stores value for a pod.
func (s *Slot[T]) Set(uid types.UID, value T) {
	s.With(uid, func(p *T) { *p = value })
}

// With lets f change the value stored for a pod. The value starts as the zero value. f runs under
// the table's lock, so f must not block and must not call code that takes another lock.
func (s *Slot[T]) With(uid types.UID, f func(*T)) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	r := s.table.records[uid]
	p := s.in(r)
	if p == nil {
		p = new(T)
		if missing := s.index + 1 - len(r); missing > 0 {
			r = append(r, make(record, missing)...)
			s.table.records[uid] = r
		}
		r[s.index] = p
		s.table.slots[s.index].filled++
	}
	f(p)
}

// Drop empties the slot of a pod and returns the value that was stored.
func (s *Slot[T]) Drop(uid types.UID) (last T) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if p := s.in(s.table.records[uid]); p != nil {
		last = *p
		s.table.records[uid][s.index] = nil
		s.table.slots[s.index].filled--
	}
	return last
}

// All returns the stored values by pod UID, in no particular order, as of the call. If no value is
// stored, the time of the call does not depend on the number of pods.
func (s *Slot[T]) All() iter.Seq2[types.UID, T] {
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	type stored struct {
		uid   types.UID
		value T
	}
	filled := s.table.slots[s.index].filled
	if filled == 0 {
		return func(func(types.UID, T) bool) {}
	}
	values := make([]stored, 0, filled)
	for uid, r := range s.table.records {
		if p := s.in(r); p != nil {
			values = append(values, stored{uid, *p})
		}
	}
	return func(yield func(types.UID, T) bool) {
		for _, v := range values {
			if !yield(v.uid, v.value) {
				return
			}
		}
	}
}
