// SPDX-License-Identifier: Apache-2.0

package feature

import (
	"cmp"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Table holds one record for each pod that the node knows, and is the only place where a node
// stores data by pod UID. A record is created with the first fact about its pod. Prune deletes the
// record of a gone pod, except the values of lasting slots. The methods are safe for concurrent use.
// No method calls foreign code while it holds the lock, except the function passed to Slot.With.
type Table struct {
	mu      sync.RWMutex
	records map[types.UID]record
	slots   []slotState
	pods    *Slot[Listing]
}

// record has the pod's values by the index of their slots: nil, or a *T for a Slot[T]. It ends with the
// last slot that ever had a value.
type record []any

// slotState is what a Table knows about a slot.
type slotState struct {
	filled  int  // number of records with a value
	lasting bool // see NewLastingSlot
}

// Listing says whether a source lists a pod, and whether the pod may run. The zero value is that of an
// unknown pod.
type Listing struct {
	// Desired is the newest version of the pod. It is shared and must not be written. Nil means that no
	// source lists the pod.
	Desired *v1.Pod
	// Listed reports whether a source has listed the pod since its record began.
	Listed bool
	Entry  Entry
	// Refusal is the status of a Refused pod, and nil in other states.
	Refusal *v1.PodStatus
}

// Entry is the admission state of a desired pod.
type Entry uint8

const (
	// Admitted pods may run.
	Admitted Entry = iota
	// Held pods wait for an admission decision.
	Held
	// Refused pods do not run. Their status gives the reason.
	Refused
)

// NewTable returns a table without records.
func NewTable() *Table {
	t := &Table{records: make(map[types.UID]record)}
	t.pods = NewSlot[Listing](t)
	return t
}

// Listing returns the state of a pod in the sources and in admission.
func (t *Table) Listing(uid types.UID) Listing { return t.pods.Get(uid) }

// SetDesired stores the newest version of a pod that a source lists. The pod is shared and must not
// be written afterwards.
func (t *Table) SetDesired(pod *v1.Pod) {
	t.pods.With(pod.UID, func(l *Listing) { l.Desired, l.Listed = pod, true })
}

// RemoveDesired marks a pod as no longer listed by any source. The slots of the pod stay until
// Prune.
func (t *Table) RemoveDesired(uid types.UID) { t.pods.Set(uid, Listing{Listed: true}) }

// Desired returns the newest version of a pod. ok is false if no source lists the pod.
func (t *Table) Desired(uid types.UID) (pod *v1.Pod, ok bool) {
	l := t.Listing(uid)
	return l.Desired, l.Desired != nil
}

// SetEntry stores the admission state of a desired pod. refusal is the status of a Refused pod, and
// nil in other states.
func (t *Table) SetEntry(uid types.UID, e Entry, refusal *v1.PodStatus) {
	t.pods.With(uid, func(l *Listing) { l.Entry, l.Refusal = e, refusal })
}

// WithRefusal returns status with the phase, the reason and the message of the refusal of a Refused
// pod, and stores the result as the status of the refusal. For another pod the result is status.
func (t *Table) WithRefusal(uid types.UID, status v1.PodStatus) v1.PodStatus {
	if t.Listing(uid).Refusal == nil {
		return status
	}
	t.pods.With(uid, func(l *Listing) {
		if r := l.Refusal; r != nil {
			status.Phase, status.Reason, status.Message = r.Phase, r.Reason, r.Message
			l.Refusal = &status
		}
	})
	return status
}

// MayRun reports whether the pod is Admitted, which includes pods unknown to the table.
func (t *Table) MayRun(uid types.UID) bool { return t.Listing(uid).Entry == Admitted }

// DesiredPods returns the desired pods, sorted by namespace, name and UID.
func (t *Table) DesiredPods() []*v1.Pod {
	return t.listed(func(l *Listing) bool { return l.Desired != nil })
}

// AdmittedPods returns the desired pods that may run, sorted by namespace, name and UID.
func (t *Table) AdmittedPods() []*v1.Pod {
	return t.listed(func(l *Listing) bool { return l.Desired != nil && l.Entry == Admitted })
}

// listed returns the sorted pods of the listings for which f returns true.
func (t *Table) listed(f func(*Listing) bool) (all []*v1.Pod) {
	t.mu.RLock()
	all = make([]*v1.Pod, 0, len(t.records))
	for _, r := range t.records {
		if l := t.pods.in(r); l != nil && f(l) {
			all = append(all, l.Desired)
		}
	}
	t.mu.RUnlock()
	slices.SortFunc(all, compare)
	return all
}

// Prune empties the slots of pods that no source lists and for which known returns false, except
// lasting slots. A record without a value is deleted.
func (t *Table) Prune(known func(types.UID) bool) {
	var uids []types.UID
	t.mu.RLock()
	for uid, r := range t.records {
		if l := t.pods.in(r); l == nil || l.Desired == nil {
			uids = append(uids, uid)
		}
	}
	t.mu.RUnlock()
	for _, uid := range uids {
		if _, wanted := t.Desired(uid); wanted || known(uid) {
			continue
		}
		t.mu.Lock()
		r, kept := t.records[uid], false
		for i, value := range r {
			switch {
			case value == nil:
			case t.slots[i].lasting:
				kept = true
			default:
				r[i] = nil
				t.slots[i].filled--
			}
		}
		if !kept {
			delete(t.records, uid)
		}
		t.mu.Unlock()
	}
}

// compare orders pods by namespace, name and UID.
func compare(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
