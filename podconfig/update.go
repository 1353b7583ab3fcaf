// SPDX-License-Identifier: Apache-2.0

package podconfig

import v1 "k8s.io/api/core/v1"

// Op is the operation on the pods of an Update.
type Op uint8

// The operations. Store.Merge documents their order in a Merge. Meanings are those of kubelet 1.36.
const (
	// OpAdd: the source has new pods. An OpAdd without pods reports only that the source is ready.
	OpAdd Op = iota + 1
	// OpUpdate: spec, labels, annotations or the deletion fields of known pods changed, and the
	// pods have no DeletionTimestamp.
	OpUpdate
	// OpDelete: like OpUpdate, for pods with a DeletionTimestamp. They are still in their source
	// and stop gracefully.
	OpDelete
	// OpRemove: the pods left their source. The update carries their last known objects.
	OpRemove
	// OpReconcile: only the status of known pods changed.
	OpReconcile
)

// String returns the operation in upper case, as in the kubelet.
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
	}
	return "UNKNOWN"
}

// Update is an operation on pods of a source.
type Update struct {
	Op     Op
	Source string
	// Pods are owned by the receiver, or read-only with StoreOptions.Shared. May be empty.
	Pods []*v1.Pod
	// Synced marks the last update of a source's first Snapshot: the consumer then has all pods of
	// the source. See Readiness.
	Synced bool
}

// outcome is the effect of a Change on a ledger. Its pods are stored pods and read-only.
type outcome struct {
	removed, added, updated, deleted, reconciled []*v1.Pod
	// first is set by the first snapshot of a source.
	first bool
}

// updates returns the outcome as updates in the order required by consumers. Removals come first,
// because a consumer indexed by full name would otherwise lose a new pod with the name of a removed
// pod.
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
