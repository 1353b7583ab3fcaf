// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/sorted"
)

// podName holds the parts of a full name without an allocation.
type podName struct{ namespace, name string }

func nameOf(p *v1.Pod) podName { return podName{namespace: p.Namespace, name: p.Name} }

// row is a pod with its arrival number.
type row struct {
	pod *v1.Pod
	at  uint64
}

// table holds pods by UID and by name. Several pods may have the same name; lookups return the last
// arrival.
type table struct {
	rows  map[types.UID]row
	names map[podName][]types.UID // in order of arrival
}

func newTable() table {
	return table{rows: map[types.UID]row{}, names: map[podName][]types.UID{}}
}

// put adds or replaces a pod. A replaced pod keeps its arrival number, unless its name has changed.
func (t *table) put(p *v1.Pod, at uint64) {
	old, known := t.rows[p.UID]
	if known && nameOf(old.pod) == nameOf(p) {
		t.rows[p.UID] = row{pod: p, at: old.at}
		return
	}
	t.remove(p.UID)
	t.rows[p.UID] = row{pod: p, at: at}
	t.names[nameOf(p)] = append(t.names[nameOf(p)], p.UID)
}

// remove removes the pod with a UID, if present. Another pod with the same name remains.
func (t *table) remove(uid types.UID) {
	r, known := t.rows[uid]
	if !known {
		return
	}
	delete(t.rows, uid)
	name := nameOf(r.pod)
	left := slices.DeleteFunc(t.names[name], func(other types.UID) bool { return other == uid })
	if t.names[name] = left; len(left) == 0 {
		delete(t.names, name)
	}
}

// get returns the pod with a UID, or nil.
func (t *table) get(uid types.UID) *v1.Pod { return t.rows[uid].pod }

// named returns the last pod with a name, or nil.
func (t *table) named(name podName) *v1.Pod {
	uids := t.names[name]
	if len(uids) == 0 {
		return nil
	}
	return t.rows[uids[len(uids)-1]].pod
}

// all returns the pods in order of arrival.
func (t *table) all() []*v1.Pod {
	rows := make([]row, 0, len(t.rows))
	for _, r := range t.rows {
		rows = append(rows, r)
	}
	sorted.By(rows, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	pods := make([]*v1.Pod, len(rows))
	for i, r := range rows {
		pods[i] = r.pod
	}
	return pods
}
