// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// maxChanges is the number of changes that a watch can be behind.
const maxChanges = 1000

// change is a step from one state of an object to the next.
type change struct {
	version uint64
	kind    *kind
	before  object // nil: the object is new
	after   object // nil: the object has gone
}

// view gives versions to the objects of the node: a list has the version of its newest change, and
// a watch continues at a version.
type view struct {
	turn chan struct{} // held during refresh, so that an old list does not follow a newer one

	mu struct {
		sync.Mutex
		version  uint64
		forgot   uint64 // version of the newest change that is not in changes
		objects  map[*kind]map[types.NamespacedName]object
		changes  []change
		watchers map[*kind]int
		changed  chan struct{} // closed after a change
	}
}

func newView(version uint64) *view {
	v := &view{turn: make(chan struct{}, 1)}
	v.mu.version, v.mu.forgot = version, version
	v.mu.objects = map[*kind]map[types.NamespacedName]object{}
	v.mu.watchers = map[*kind]int{}
	v.mu.changed = make(chan struct{})
	return v
}

// refresh lists the objects of a kind anew.
func (v *view) refresh(k *kind) {
	v.turn <- struct{}{}
	defer func() { <-v.turn }()
	list := k.list()
	slices.SortFunc(list, compareObjects)
	fresh := make(map[types.NamespacedName]object, len(list))
	v.mu.Lock()
	defer v.mu.Unlock()
	known, first := v.mu.objects[k], len(v.mu.changes)
	for _, o := range list {
		key := keyOf(o)
		old := known[key]
		if old != nil {
			o.SetResourceVersion(old.GetResourceVersion())
			if equality.Semantic.DeepEqual(old, o) {
				fresh[key] = old
				continue
			}
			if old.GetUID() != o.GetUID() {
				v.addLocked(change{kind: k, before: old})
				old = nil
			}
		}
		v.addLocked(change{kind: k, before: old, after: o})
		fresh[key] = o
	}
	for key, old := range known {
		if fresh[key] == nil {
			v.addLocked(change{kind: k, before: old})
		}
	}
	v.mu.objects[k] = fresh
	if len(v.mu.changes) == first {
		return
	}
	if extra := len(v.mu.changes) - maxChanges; extra > 0 {
		v.mu.forgot = v.mu.changes[extra-1].version
		v.mu.changes = slices.Delete(v.mu.changes, 0, extra)
	}
	close(v.mu.changed)
	v.mu.changed = make(chan struct{})
}

// addLocked gives the next version to a change.
func (v *view) addLocked(c change) {
	v.mu.version++
	c.version = v.mu.version
	if c.after != nil {
		c.after.SetResourceVersion(strconv.FormatUint(c.version, 10))
	}
	v.mu.changes = append(v.mu.changes, c)
}

// current refreshes a kind, and returns its objects in order with the version of the view.
func (v *view) current(k *kind) (all []object, version uint64) {
	v.refresh(k)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, o := range v.mu.objects[k] {
		all = append(all, o)
	}
	slices.SortFunc(all, compareObjects)
	return all, v.mu.version
}

// get refreshes a kind and returns an object, or nil.
func (v *view) get(k *kind, key types.NamespacedName) object {
	v.refresh(k)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.objects[k][key]
}

// since returns the changes of a kind after a version, the version of the last change, and a channel
// that is closed after the next change. ok is false if older changes are missing.
func (v *view) since(k *kind, version uint64) (changes []change, last uint64, next <-chan struct{}, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version < v.mu.forgot || version > v.mu.version {
		return nil, 0, nil, false
	}
	for _, c := range v.mu.changes {
		if c.version > version && c.kind == k {
			changes = append(changes, c)
		}
	}
	return changes, v.mu.version, v.mu.changed, true
}

// watch makes Run refresh a kind until the returned function is called.
func (v *view) watch(k *kind) (release func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.watchers[k]++
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.mu.watchers[k]--
	}
}

func (v *view) isWatched(k *kind) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.watchers[k] > 0
}

func keyOf(o object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func compareObjects(a, b object) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// event returns the watch event of a change for a client that sees the matching objects, or "" for
// none.
func (c change) event(matches func(object) bool) (watch.EventType, object) {
	was, is := c.before != nil && matches(c.before), c.after != nil && matches(c.after)
	switch {
	case was && is:
		return watch.Modified, c.after
	case is:
		return watch.Added, c.after
	case was:
		return watch.Deleted, c.before
	}
	return "", nil
}
