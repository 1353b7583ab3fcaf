// SPDX-License-Identifier: Apache-2.0

package feature

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"
)

// Slot stores one value of type T per pod for a feature. The value is part of the pod's record and
// is deleted with the record. The methods are safe for concurrent use.
type Slot[T any] struct{ table *Table }

// NewSlot adds a slot to every record of t.
func NewSlot[T any](t *Table) *Slot[T] { return &Slot[T]{t} }

// NewLastingSlot adds a slot whose values stay until Drop, even if the node does not know the pod. Use
// a lasting slot for remains of earlier agents, and for facts about a pod that no source has listed yet.
func NewLastingSlot[T any](t *Table) *Slot[T] {
	s := NewSlot[T](t)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lasting[s] = true
	return s
}

// Get returns the value stored for a pod, or the zero value if none is stored.
func (s *Slot[T]) Get(uid types.UID) (value T) {
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	if p, ok := s.table.records[uid][s].(*T); ok {
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
	if r == nil {
		r = make(record)
		s.table.records[uid] = r
	}
	p, ok := r[s].(*T)
	if !ok {
		p = new(T)
		r[s] = p
		s.table.filled[s]++
	}
	f(p)
}

// Drop empties the slot of a pod and returns the value that was stored.
func (s *Slot[T]) Drop(uid types.UID) (last T) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if p, ok := s.table.records[uid][s].(*T); ok {
		last = *p
		delete(s.table.records[uid], s)
		s.table.filled[s]--
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
	values := make([]stored, 0, s.table.filled[s])
	if s.table.filled[s] > 0 {
		for uid, r := range s.table.records {
			if p, ok := r[s].(*T); ok {
				values = append(values, stored{uid, *p})
			}
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
