// SPDX-License-Identifier: Apache-2.0

package podconfig

import "iter"

// ordered is a map with keys in order of arrival. Every operation is O(1). The zero value is empty
// and ready to use.
type ordered[K comparable, V any] struct {
	nodes       map[K]*node[K, V]
	first, last *node[K, V]
}

type node[K comparable, V any] struct {
	key        K
	value      V
	prev, next *node[K, V]
}

func (o *ordered[K, V]) len() int { return len(o.nodes) }

func (o *ordered[K, V]) get(key K) (value V, ok bool) {
	n, ok := o.nodes[key]
	if ok {
		value = n.value
	}
	return value, ok
}

// set stores the value. An existing key keeps its place.
func (o *ordered[K, V]) set(key K, value V) {
	if n, ok := o.nodes[key]; ok {
		n.value = value
		return
	}
	if o.nodes == nil {
		o.nodes = make(map[K]*node[K, V])
	}
	n := &node[K, V]{key: key, value: value, prev: o.last}
	if o.last == nil {
		o.first = n
	} else {
		o.last.next = n
	}
	o.last = n
	o.nodes[key] = n
}

func (o *ordered[K, V]) remove(key K) {
	n, ok := o.nodes[key]
	if !ok {
		return
	}
	delete(o.nodes, key)
	if n.prev == nil {
		o.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		o.last = n.prev
	} else {
		n.next.prev = n.prev
	}
}

// front returns the value of the oldest key.
func (o *ordered[K, V]) front() (value V, ok bool) {
	if o.first != nil {
		value = o.first.value
	}
	return value, o.first != nil
}

// all yields in order of arrival. The loop may remove the current key.
func (o *ordered[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for n := o.first; n != nil; {
			next := n.next
			if !yield(n.key, n.value) {
				return
			}
			n = next
		}
	}
}
