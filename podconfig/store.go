// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"
)

// Errors of Merge and Register. They are mistakes of the program, never of a pod.
var (
	// ErrNoSource: the name of a source is empty.
	ErrNoSource = errors.New("podconfig: source without name")
	// ErrUnknownChange: the Change was not built by Snapshot, Upsert or Remove.
	ErrUnknownChange = errors.New("podconfig: unknown change")
)

// Rejection is a pod rejected by the store or, with ErrConflict, accepted in spite of a conflict.
type Rejection struct {
	Source string
	// Pod is owned by the receiver; nil if the source sent nil.
	Pod *v1.Pod
	// Err wraps ErrDuplicateName, ErrDuplicateUID, ErrInvalidPod or ErrConflict.
	Err error
}

// StoreOptions are the options of NewStore. The zero value is valid.
type StoreOptions struct {
	// Seed holds the pods known to an earlier process of the agent, by source, from the caller's
	// checkpoint. The pods are copied and count as known: a first snapshot reports only the
	// differences. A pod keeps its first-seen time, if present, and does not mark its source as
	// seen. NewStore returns no updates for the seed, see Replay. Defaults to none.
	Seed map[string][]*v1.Pod
	// Rejected is called for each rejected pod and, once per ADD, for each conflict between
	// sources. It is called without a lock held, before Merge returns, and possibly concurrently.
	// For a rejected pod the kubelet sends a warning event with the reason FailedValidation.
	// Defaults to a warning to Logger.
	Rejected func(Rejection)
	// Logger receives a warning per Rejection if Rejected is nil. Defaults to none.
	Logger *zap.Logger

	// Shared makes updates carry the stored pods instead of copies, for a consumer that never edits
	// a pod. Defaults to copies, which the consumer owns.
	Shared bool
}

// Store holds the pods of every source and merges the changes of sources into a stream of updates.
// It has no goroutines and is safe for concurrent use.
type Store struct {
	options StoreOptions
	mu      struct {
		sync.Mutex
		ledgers ordered[string, *ledger]
	}
}

// NewStore returns a store with the seed. Its error names the invalid field.
func NewStore(o StoreOptions) (*Store, error) {
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	s := &Store{options: o}
	now := time.Now()
	for _, source := range slices.Sorted(maps.Keys(o.Seed)) {
		if source == "" {
			return nil, fmt.Errorf("podconfig: StoreOptions.Seed: %w", ErrNoSource)
		}
		pods, rejected := filter(o.Seed[source])
		if len(rejected) > 0 {
			return nil, fmt.Errorf("podconfig: StoreOptions.Seed[%q]: %w", source, rejected[0].err)
		}
		s.ledger(source).seed(pods, now)
	}
	s.options.Seed = nil
	return s, nil
}

// Merge applies a change of a source and returns the resulting updates, each operation at most
// once, in this order:
//
//	REMOVE, ADD, UPDATE, DELETE, [an empty ADD if it is the source's first Snapshot and none of ADD, UPDATE, DELETE came], RECONCILE
//
// Removed pods are in order of arrival (for Remove: in the order of the UIDs). All other pods are
// in the order of the change. A pod is identified by source and UID; the package documentation
// explains names.
//
// The pods of c are not edited, and parts of them are kept only if they were given away
// (Change.Given). Rejected pods are passed to StoreOptions.Rejected and
// do not affect the others. An error wraps ErrNoSource, ErrUnknownChange or the cause of ctx's end,
// and means that c was not merged.
//
// The cost of an Upsert or Remove depends only on its own pods. A Snapshot examines each of its
// pods. In SourceAPI, a pod with unchanged UID and resourceVersion is not compared.
//
// Merge is safe for concurrent use, and each call is atomic. To receive updates in the order of
// merges, call Merge from a single goroutine, or use Run.
func (s *Store) Merge(ctx context.Context, source string, c Change) ([]Update, error) {
	switch {
	case source == "":
		return nil, ErrNoSource
	case c.kind == 0:
		return nil, fmt.Errorf("%w from source %q", ErrUnknownChange, source)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("podconfig: merge %s of source %q: %w", c.kind, source, context.Cause(ctx))
	}
	now := time.Now()
	pods, rejected := filter(c.pods)
	o, conflicts := s.apply(source, c, pods, now)

	s.report(source, rejected)
	s.report(source, conflicts)
	return s.handOver(o.updates(source)), nil
}

func (s *Store) apply(source string, c Change, pods []*v1.Pod, now time.Time) (*outcome, []rejection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger(source)
	o := l.apply(c, pods, now)
	return o, conflicts(l, s.mu.ledgers.all(), o.added)
}

// ledger returns the ledger of a source, creating it if absent. The caller holds the lock.
func (s *Store) ledger(source string) *ledger {
	l, ok := s.mu.ledgers.get(source)
	if !ok {
		l = newLedger(source)
		s.mu.ledgers.set(source, l)
	}
	return l
}

// handOver replaces the stored pods of the updates by copies, unless the store shares them.
func (s *Store) handOver(updates []Update) []Update {
	if s.options.Shared {
		return updates
	}
	for _, u := range updates {
		for i, p := range u.Pods {
			u.Pods[i] = p.DeepCopy()
		}
	}
	return updates
}

// Register fixes the place of the given sources in the order of Pods; Run calls it. Merge and
// StoreOptions.Seed register a source as well. An error wraps ErrNoSource, and then no source was
// registered.
func (s *Store) Register(sources ...string) error {
	if slices.Contains(sources, "") {
		return ErrNoSource
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, source := range sources {
		s.ledger(source)
	}
	return nil
}

// Drop forgets a source and returns the REMOVE of its pods, if any. Call Drop after the source has
// ended, and pass the update to the consumer after the last update of the source.
func (s *Store) Drop(source string) []Update {
	return s.handOver(s.drop(source).updates(source))
}

func (s *Store) drop(source string) *outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &outcome{}
	if l, ok := s.mu.ledgers.get(source); ok {
		for _, r := range l.pods.all() {
			o.removed = append(o.removed, r.pod)
		}
		s.mu.ledgers.remove(source)
	}
	return o
}

// Seen reports whether a Snapshot of the source has been merged. Its updates may not have reached
// the consumer yet: to decide about killing pods, use Readiness instead.
func (s *Store) Seen(source string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.mu.ledgers.get(source)
	return ok && l.seen
}

// Pods yields the source and pod of every pod in the store at the beginning of the loop. Sources
// are in order of registration, pods in order of arrival. The store owns the pods, which must not
// be edited and never change. The loop may call the store.
func (s *Store) Pods() iter.Seq2[string, *v1.Pod] {
	return func(yield func(string, *v1.Pod) bool) {
		for _, h := range s.holdings() {
			for _, p := range h.pods {
				if !yield(h.source, p) {
					return
				}
			}
		}
	}
}

type holding struct {
	source string
	pods   []*v1.Pod
}

func (s *Store) holdings() []holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]holding, 0, s.mu.ledgers.len())
	for source, l := range s.mu.ledgers.all() {
		h := holding{source: source, pods: make([]*v1.Pod, 0, l.pods.len())}
		for _, r := range l.pods.all() {
			h.pods = append(h.pods, r.pod)
		}
		out = append(out, h)
	}
	return out
}

// Replay returns the updates for a consumer without any pods: one ADD per source with all its pods,
// in the order of Pods, never Synced. Use it for a consumer that starts with a seed
// (StoreOptions.Seed) or starts anew. It must not run concurrently with Merge or Run, because it
// could overtake or repeat their updates.
func (s *Store) Replay() []Update {
	var out []Update
	for _, h := range s.holdings() {
		if len(h.pods) > 0 {
			out = append(out, Update{Op: OpAdd, Source: h.source, Pods: h.pods})
		}
	}
	return s.handOver(out)
}

// Get returns the pod of a source with a UID. The store owns the pod, which must not be edited and
// never changes.
func (s *Store) Get(source string, uid types.UID) (*v1.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.mu.ledgers.get(source)
	if !ok {
		return nil, false
	}
	r, ok := l.pods.get(uid)
	return r.pod, ok
}
