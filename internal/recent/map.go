// SPDX-License-Identifier: Apache-2.0

// Package recent keeps values as long as they are used.
package recent

// Map has a value for each key. The zero value is empty. A Map is for one goroutine.
type Map[K comparable, V any] struct{ all map[K]*entry[V] }

type entry[V any] struct {
	value V
	used  bool // since the last call of Forget
}

// Get returns the value of a key, at first the zero value. It is shared with later calls.
func (m *Map[K, V]) Get(key K) *V {
	e := m.all[key]
	if e == nil {
		if m.all == nil {
			m.all = map[K]*entry[V]{}
		}
		e = &entry[V]{}
		m.all[key] = e
	}
	e.used = true
	return &e.value
}

// Forget drops the values that Get has not returned since the last call of Forget.
func (m *Map[K, V]) Forget() {
	for key, e := range m.all {
		if !e.used {
			delete(m.all, key)
			continue
		}
		e.used = false
	}
}
