// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"context"
	"errors"
	"fmt"
)

// AllSources is the source of the update that Notifier.Sync returns. No source of a store should have this name.
const AllSources = "*"

// ErrMode is wrapped by NewNotifier: the mode is none of the three, or there is no store.
var ErrMode = errors.New("podconfig: unknown notification mode")

// Mode tells in which words a Notifier tells about changes. They are those of kubelets up to 1.35; 1.36 knows only the
// first (PR #136060).
type Mode uint8

const (
	// ModeIncremental tells what Store.Merge tells.
	ModeIncremental Mode = iota + 1
	// ModeSnapshotAndUpdates tells all pods (OpSet) when some came or left or the source became ready, then the updated
	// ones (OpUpdate), then those that are being deleted (OpDelete). Of a status nobody is told until the next OpSet.
	ModeSnapshotAndUpdates
	// ModeSnapshot tells all pods (OpSet) whenever anything but a status changed or the source became ready.
	ModeSnapshot
)

// Notifier is a Merger for consumers that want whole snapshots: what a Store tells, in the words of a Mode. It keeps no
// state beside the store's and is safe for concurrent use, but an OpSet holds what the store held a moment after its
// Merge: who needs the order of the snapshots to be that of the merges calls it from one goroutine, or uses Run.
//
// An OpSet costs a copy of every pod, or a pointer with StoreOptions.SharedOutput. It carries the pods of all sources,
// each with AnnotationSource, in the order of Store.Pods, and the name of the source that changed; it is Synced if it is
// the last update of that source's first Snapshot. A Queue does not take it: a slow consumer of snapshots reads a Queue
// of increments until that is empty, and then Sync, or Store.Pods.
type Notifier struct {
	store *Store
	mode  Mode
}

// NewNotifier returns a Notifier over a store. Its error wraps ErrMode; the kubelet's zero mode panics at the first
// merge.
func NewNotifier(s *Store, m Mode) (*Notifier, error) {
	if s == nil || m < ModeIncremental || m > ModeSnapshot {
		return nil, fmt.Errorf("%w: %d over a store: %t", ErrMode, m, s != nil)
	}
	return &Notifier{store: s, mode: m}, nil
}

// Register registers sources with the store, as Run wants it. See Store.Register.
func (n *Notifier) Register(sources ...string) error { return n.store.Register(sources...) }

// Merge merges a change into the store and tells what it means in the words of the mode. Its errors are those of
// Store.Merge.
func (n *Notifier) Merge(ctx context.Context, source string, c Change) ([]Update, error) {
	updates, err := n.store.Merge(ctx, source, c)
	if err != nil {
		return nil, err
	}
	return n.tell(source, updates), nil
}

// Drop forgets a source and tells so in the words of the mode. See Store.Drop.
func (n *Notifier) Drop(source string) []Update {
	return n.tell(source, n.store.Drop(source))
}

// Sync returns an OpSet with all pods and the source AllSources, in any mode.
func (n *Notifier) Sync() Update { return n.whole(AllSources) }

func (n *Notifier) tell(source string, updates []Update) []Update {
	if n.mode == ModeIncremental {
		return updates
	}
	summary := summarize(updates)
	var out []Update
	if summary.needsSet(n.mode) {
		out = append(out, n.whole(source))
	}
	if n.mode == ModeSnapshotAndUpdates {
		out = append(out, summary.changed...)
	}
	if summary.synced {
		out[len(out)-1].Synced = true // a source that is synced has an OpSet
	}
	return out
}

func (n *Notifier) whole(source string) Update {
	u := Update{Op: OpSet, Source: source}
	for _, p := range n.store.Pods() {
		u.Pods = append(u.Pods, p)
	}
	return n.store.handOver([]Update{u})[0]
}

// summary is what the modes with snapshots look at.
type summary struct {
	moved   bool     // pods came or left
	synced  bool     // the source became ready
	changed []Update // the UPDATE and the DELETE
}

func summarize(updates []Update) summary {
	var s summary
	for _, u := range updates {
		s.synced = s.synced || u.Synced
		u.Synced = false
		switch u.Op {
		case OpAdd, OpRemove:
			s.moved = s.moved || len(u.Pods) > 0
		case OpUpdate, OpDelete:
			s.changed = append(s.changed, u)
		}
	}
	return s
}

func (s summary) needsSet(m Mode) bool {
	return s.synced || s.moved || len(s.changed) > 0 && m == ModeSnapshot
}
