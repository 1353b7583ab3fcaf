// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"iter"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// Index is the pods of a node by UID and by name, mirror pods apart from all others, and which mirror belongs to which
// static pod: what the kubelet calls its pod manager.
//
// It keeps the pods that it is given and returns the same ones: nobody may edit them. Where several pods have one full
// name, the one that arrived last stands for it. An Index is safe for concurrent use.
type Index struct {
	mu struct {
		sync.RWMutex
		pods, mirrors table
		arrivals      uint64
	}
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	x := &Index{}
	x.mu.pods, x.mu.mirrors = newTable(), newTable()
	return x
}

// Apply takes in an update of a Store, which now belongs to the index, and returns what to tell the workers: pods, with
// the operation of the update; and touched, the static pods whose mirror pods the update was about, as an update each.
// Mirror pods themselves are nothing to run. An update must be applied before the ones that follow it.
func (x *Index) Apply(u podconfig.Update) (pods, touched []*v1.Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range u.Pods {
		if u.Op == podconfig.OpRemove {
			x.remove(p.UID)
		} else {
			x.put(p)
		}
		if !podconfig.IsMirror(p) {
			pods = append(pods, p)
		} else if static := x.mu.pods.named(nameOf(p)); static != nil && !slices.Contains(touched, static) {
			touched = append(touched, static)
		}
	}
	return pods, touched
}

// Put adds a pod, or replaces the one of its UID.
func (x *Index) Put(p *v1.Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.put(p)
}

// Remove removes the pod of a UID, mirror or not, if there is one. A pod of the same name and another UID stays, and is
// found by that name.
func (x *Index) Remove(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(uid)
}

// put files a pod on the right side, and takes it off the other: a pod may be made a mirror by an edit.
func (x *Index) put(p *v1.Pod) {
	side, other := &x.mu.pods, &x.mu.mirrors
	if podconfig.IsMirror(p) {
		side, other = other, side
	}
	other.remove(p.UID)
	x.mu.arrivals++
	side.put(p, x.mu.arrivals)
}

func (x *Index) remove(uid types.UID) {
	x.mu.pods.remove(uid)
	x.mu.mirrors.remove(uid)
}

// Get returns the pod of a UID; that of a mirror pod is not found.
func (x *Index) Get(uid types.UID) (*v1.Pod, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p := x.mu.pods.get(uid)
	return p, p != nil
}

// ByName returns the pod of a name; mirror pods are not found.
func (x *Index) ByName(namespace, name string) (*v1.Pod, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p := x.mu.pods.named(podName{namespace: namespace, name: name})
	return p, p != nil
}

// Pair returns, for a pod or a mirror pod, which need not be in the index, both: itself and what has its name on the
// other side, nil if nothing has. Whether the mirror is one of the pod's present content is not looked at; see
// IsMirrorOf.
func (x *Index) Pair(p *v1.Pod) (pod, mirror *v1.Pod) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if podconfig.IsMirror(p) {
		return x.mu.pods.named(nameOf(p)), p
	}
	return p, x.mu.mirrors.named(nameOf(p))
}

// Pods yields all pods but mirrors, in the order of their arrival. What the index held when the loop began is yielded;
// the loop may call the index.
func (x *Index) Pods() iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		pods, _ := x.all()
		slices.Values(pods)(yield)
	}
}

// Mirrors yields all mirror pods. See Pods.
func (x *Index) Mirrors() iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		_, mirrors := x.all()
		slices.Values(mirrors)(yield)
	}
}

// Statics yields each static pod and its mirror pod, nil if it has none: what to Reconcile, for example all at once when
// the node object has come to be. See Pods.
func (x *Index) Statics() iter.Seq2[*v1.Pod, *v1.Pod] {
	return func(yield func(static, mirror *v1.Pod) bool) {
		for _, p := range x.statics() {
			if !yield(p.static, p.mirror) {
				return
			}
		}
	}
}

// Orphans yields the mirror pods whose name no pod has: those to delete. See Pods.
func (x *Index) Orphans() iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) { slices.Values(x.orphans())(yield) }
}

// Translate returns the UID of the static pod whose mirror has this UID, and any other UID as it is. A mirror is the
// static pod's for as long as both are there.
func (x *Index) Translate(uid types.UID) types.UID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if m := x.mu.mirrors.get(uid); m != nil {
		if p := x.mu.pods.named(nameOf(m)); p != nil {
			return p.UID
		}
	}
	return uid
}

// Translations returns the UIDs of the mirror pods by static pod, "" for one that has none, and those of the static pods
// by mirror pod. Both maps are the caller's.
func (x *Index) Translations() (mirrorOf, staticOf map[types.UID]types.UID) {
	mirrorOf, staticOf = map[types.UID]types.UID{}, map[types.UID]types.UID{}
	for static, mirror := range x.Statics() {
		mirrorOf[static.UID] = ""
		if mirror != nil {
			mirrorOf[static.UID] = mirror.UID
		}
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for uid, r := range x.mu.mirrors.rows {
		if p := x.mu.pods.named(nameOf(r.pod)); p != nil {
			staticOf[uid] = p.UID
		}
	}
	return mirrorOf, staticOf
}

func (x *Index) all() (pods, mirrors []*v1.Pod) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.mu.pods.all(), x.mu.mirrors.all()
}

type pair struct{ static, mirror *v1.Pod }

func (x *Index) statics() []pair {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []pair
	for _, p := range x.mu.pods.all() {
		if podconfig.IsStatic(p) {
			out = append(out, pair{static: p, mirror: x.mu.mirrors.named(nameOf(p))})
		}
	}
	return out
}

func (x *Index) orphans() []*v1.Pod {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.DeleteFunc(x.mu.mirrors.all(), func(m *v1.Pod) bool { return x.mu.pods.named(nameOf(m)) != nil })
}
