// SPDX-License-Identifier: Apache-2.0

package podconfig

import v1 "k8s.io/api/core/v1"

// Op tells what happened to the pods of an Update.
type Op uint8

// The operations, in no order; Store.Merge documents the order in which one Merge tells them. Meanings are those of
// kubelet 1.36.
const (
	// OpAdd: the source has new pods. Without pods it says no more than "the source is ready".
	OpAdd Op = iota + 1
	// OpUpdate: spec, labels, annotations or the deletion fields of known pods changed, and they are not being deleted.
	OpUpdate
	// OpDelete: as OpUpdate, of pods with a DeletionTimestamp. They are still in their source and stop gracefully.
	OpDelete
	// OpRemove: the pods left their source. The update carries their last known objects.
	OpRemove
	// OpReconcile: only the status of known pods changed.
	OpReconcile
	// OpSet: the update carries all pods of all sources. Only a Notifier says so, never a Store.
	OpSet
)

// String returns the operation in the kubelet's capitals.
func (o Op) String() string {
	switch o {
	case OpAdd:
		return "ADD"
	case OpUpdate:
		return "UPDATE"
	case OpDelete:
		return "DELETE"
	case OpRemove:
		return "REMOVE"
	case OpReconcile:
		return "RECONCILE"
	case OpSet:
		return "SET"
	}
	return "UNKNOWN"
}

// Update is one operation on pods of one source.
type Update struct {
	Op     Op
	Source string
	// Pods belong to the receiver, who may edit and keep them, unless StoreOptions.SharedOutput is set. May be empty.
	Pods []*v1.Pod
	// Synced marks the last update of a source's first Snapshot: whoever has handled it knows all that the source holds.
	// See Readiness.
	Synced bool
}

// outcome is what one Change did to a ledger. Its pods are the stored ones, thus read-only.
type outcome struct {
	removed, added, updated, deleted, reconciled []*v1.Pod
	// first is set by the first snapshot of a source.
	first bool
}

// updates puts the outcome into the order that consumers rely on. Removals come first because a consumer that indexes
// by full name would otherwise lose the new name-sake of a removed pod.
func (o *outcome) updates(source string) []Update {
	var out []Update
	tell := func(op Op, pods []*v1.Pod) {
		if len(pods) > 0 {
			out = append(out, Update{Op: op, Source: source, Pods: pods})
		}
	}
	tell(OpRemove, o.removed)
	tell(OpAdd, o.added)
	tell(OpUpdate, o.updated)
	tell(OpDelete, o.deleted)
	if o.first && len(o.added)+len(o.updated)+len(o.deleted) == 0 {
		out = append(out, Update{Op: OpAdd, Source: source})
	}
	tell(OpReconcile, o.reconciled)
	if o.first {
		out[len(out)-1].Synced = true
	}
	return out
}
