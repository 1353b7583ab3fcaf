// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// byUID holds something about each pod, of which the zero value is nothing.
type byUID[V comparable] struct {
	mu struct {
		sync.Mutex
		values map[types.UID]V
	}
}

func newByUID[V comparable]() *byUID[V] {
	b := &byUID[V]{}
	b.mu.values = make(map[types.UID]V)
	return b
}

// set reports whether value is news.
func (b *byUID[V]) set(uid types.UID, value V) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var none V
	switch {
	case b.mu.values[uid] == value:
		return false
	case value == none:
		delete(b.mu.values, uid)
	default:
		b.mu.values[uid] = value
	}
	return true
}

func (b *byUID[V]) get(uid types.UID) V {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.values[uid]
}

// pods are those of which something is known.
func (b *byUID[V]) pods() []types.UID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.mu.values))
}

// keep forgets every pod for which keep says no.
func (b *byUID[V]) keep(keep func(types.UID) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.mu.values, func(uid types.UID, _ V) bool { return !keep(uid) })
}
