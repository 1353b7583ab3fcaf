// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ChangeKind is the kind of a Change.
type ChangeKind uint8

// Kinds of a Change. The zero ChangeKind belongs to the zero Change, which a Merger rejects.
const (
	ChangeSnapshot ChangeKind = iota + 1
	ChangeUpsert
	ChangeRemove
)

// String returns the name of the constructor for the kind.
func (k ChangeKind) String() string {
	switch k {
	case ChangeSnapshot:
		return "Snapshot"
	case ChangeUpsert:
		return "Upsert"
	case ChangeRemove:
		return "Remove"
	}
	return "unknown"
}

// Change is a change in the pods of a source. Create it with Snapshot, Upsert or Remove; the zero
// Change is invalid.
//
// The caller owns the pods. A Merger reads them during the call, and neither edits nor keeps them.
// The caller must not edit them before the call has returned. For pods that are never edited again,
// see Given.
type Change struct {
	kind  ChangeKind
	pods  []*v1.Pod
	uids  []types.UID
	given bool
}

// Snapshot returns the change after which the source holds exactly the given pods. It marks the
// source as seen, even without pods.
func Snapshot(pods ...*v1.Pod) Change {
	return Change{kind: ChangeSnapshot, pods: pods}
}

// Upsert returns the change that adds or replaces the given pods. It does not mark the source as
// seen.
func Upsert(pods ...*v1.Pod) Change {
	return Change{kind: ChangeUpsert, pods: pods}
}

// Remove returns the change that removes pods from the source. Unknown UIDs are ignored. It does
// not mark the source as seen.
func Remove(uids ...types.UID) Change {
	return Change{kind: ChangeRemove, uids: uids}
}

// Given returns the change with pods that are given away: neither the caller nor a Merger edits them
// from now on. A Merger may keep parts of such pods instead of copies. Objects that were decoded from
// an answer of an API server, for example, are usually given away.
func (c Change) Given() Change {
	c.given = true
	return c
}

// IsGiven reports whether the pods were given away, see Given. A source that wraps another source may
// then pass on parts of the pods.
func (c Change) IsGiven() bool { return c.given }

// Kind returns the kind of the change, 0 for the zero Change.
func (c Change) Kind() ChangeKind { return c.kind }

// Pods returns the pods of a Snapshot or Upsert in the caller's order, nil for a Remove. The slice
// is not a copy.
func (c Change) Pods() []*v1.Pod { return c.pods }

// UIDs returns the arguments of a Remove, nil for other kinds. The slice is not a copy.
func (c Change) UIDs() []types.UID { return c.uids }
