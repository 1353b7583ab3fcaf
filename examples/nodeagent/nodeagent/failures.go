// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"maps"
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

// keep forgets every pod for which keep says no.
func (b *byUID[V]) keep(keep func(types.UID) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.mu.values, func(uid types.UID, _ V) bool { return !keep(uid) })
}

// failures remembers how the last call for each pod failed, so that what goes on
// failing in the same way is said once, and shown for as long as it lasts.
type failures struct{ *byUID[string] }

func newFailures() *failures { return &failures{newByUID[string]()} }

// changed notes how the last call failed, "" for not at all, and reports whether
// that is news.
func (f *failures) changed(uid types.UID, text string) bool { return f.set(uid, text) }

// last returns how the last call failed, "" if it did not.
func (f *failures) last(uid types.UID) string { return f.get(uid) }
