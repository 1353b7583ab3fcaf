// SPDX-License-Identifier: Apache-2.0

package podconfig

import "iter"

// ordered is a map that remembers the order in which its keys arrived. Every operation is O(1). The zero value is empty
// and ready.
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

func (o *ordered[K, V]) get(key K) (V, bool) {
	if n, ok := o.nodes[key]; ok {
		return n.value, true
	}
	var zero V
	return zero, false
}

// set stores the value. A key that is already there keeps its place.
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

// front returns the key that arrived first.
func (o *ordered[K, V]) front() (K, V, bool) {
	if o.first == nil {
		var key K
		var value V
		return key, value, false
	}
	return o.first.key, o.first.value, true
}

// all yields in order of arrival. The loop may remove the key it was given.
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
