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

// Index stores the pods of a node by UID and by name, with mirror pods separate from other pods,
// and maps mirror pods to static pods. It corresponds to the kubelet's pod manager.
//
// An Index stores and returns the given pods without copying; do not edit them. If several pods
// have the same full name, lookups by name return the pod that arrived last. An Index is safe for
// concurrent use.
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

// Apply applies an update of a Store, and keeps the pods of the update. It returns the work for the
// workers: pods have the operation of the update, and touched are the static pods of the update's
// mirror pods, to handle as an OpUpdate each. Mirror pods themselves never run. Apply updates in
// order.
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

// Put adds a pod, or replaces the pod with the same UID.
func (x *Index) Put(p *v1.Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.put(p)
}

// Remove removes the pod or mirror pod with a UID, if present. A pod with the same name and another
// UID stays and is found by name.
func (x *Index) Remove(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(uid)
}

// put adds a pod to its table and removes it from the other table, because an edit may turn a pod
// into a mirror pod.
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

// Get returns the pod with a UID. It does not find mirror pods.
func (x *Index) Get(uid types.UID) (*v1.Pod, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p := x.mu.pods.get(uid)
	return p, p != nil
}

// ByName returns the pod with a name. It does not find mirror pods.
func (x *Index) ByName(namespace, name string) (*v1.Pod, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p := x.mu.pods.named(podName{namespace: namespace, name: name})
	return p, p != nil
}

// Pair returns the pod and the mirror pod with the name of p, where p is either and need not be in
// the index. The counterpart is nil if absent. Pair does not check whether the mirror pod shows the
// pod's current content; see IsMirrorOf.
func (x *Index) Pair(p *v1.Pod) (pod, mirror *v1.Pod) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if podconfig.IsMirror(p) {
		return x.mu.pods.named(nameOf(p)), p
	}
	return p, x.mu.mirrors.named(nameOf(p))
}

// Pods yields all pods except mirror pods, in order of arrival. It yields the content of the index
// at the beginning of the loop. The loop may call the index.
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

// Statics yields each static pod and its mirror pod, nil if absent. Use it to Reconcile all static
// pods, for example when the node object becomes available. See Pods.
func (x *Index) Statics() iter.Seq2[*v1.Pod, *v1.Pod] {
	return func(yield func(static, mirror *v1.Pod) bool) {
		for _, p := range x.statics() {
			if !yield(p.static, p.mirror) {
				return
			}
		}
	}
}

// Orphans yields the mirror pods without a pod of the same name, which should be deleted. See Pods.
func (x *Index) Orphans() iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) { slices.Values(x.orphans())(yield) }
}

// Translate returns the UID of the static pod whose mirror pod has the given UID. Any other UID is
// returned unchanged. A mirror pod maps to its static pod while both exist.
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

// Translations returns the UIDs of mirror pods by static pod, "" without a mirror pod, and the UIDs
// of static pods by mirror pod. The caller owns both maps.
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
