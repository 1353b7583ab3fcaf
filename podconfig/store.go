// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"
)

// What Merge and Register return. They are mistakes of the program, never of a pod.
var (
	// ErrNoSource: the name of a source is empty.
	ErrNoSource = errors.New("podconfig: source without name")
	// ErrUnknownChange: the Change was not built by Snapshot, Upsert or Remove.
	ErrUnknownChange = errors.New("podconfig: unknown change")
)

// EventRecorder tells the user about pods. client-go's record.EventRecorder is one.
type EventRecorder interface {
	// Eventf is called outside of any lock and may be called concurrently. The object is the recorder's to keep.
	Eventf(obj runtime.Object, eventType, reason, format string, args ...any)
}

// Rejection is a pod that the store did not accept, or, with ErrConflict, accepted in spite of a conflict.
type Rejection struct {
	Source string
	// Pod is the receiver's to keep; nil if the source sent nil.
	Pod *v1.Pod
	// Err wraps ErrDuplicateName, ErrDuplicateUID, ErrInvalidPod or ErrConflict.
	Err error
}

// StoreOptions are the options of NewStore. The zero value is valid.
type StoreOptions struct {
	// Sources are registered from the start, see Store.Register. Defaults to none.
	Sources []string
	// Seed is what a former life of the agent knew, by source, from the caller's own checkpoint. The pods are copied and
	// count as known: a first snapshot tells only how it differs from them. They keep their first-seen time if they have
	// one, and do not mark their source as seen. NewStore emits nothing for them, see Replay. Defaults to none.
	Seed map[string][]*v1.Pod
	// Recorder gets a warning event FailedValidation per rejected pod. Defaults to nobody.
	Recorder EventRecorder
	// Rejected is told about each pod that was rejected and, once per ADD, about each conflict between sources. It is
	// called outside of any lock, before Merge returns, maybe concurrently. Defaults to a warning to Logger.
	Rejected func(Rejection)
	// Observed is told about each ADD: the pod, which it must not edit, and its first-seen time. Called as Rejected is.
	// Defaults to nobody.
	Observed func(source string, p *v1.Pod, at time.Time)
	// SharedOutput makes updates carry the stored pods instead of copies, for consumers that never edit a pod. It halves
	// the memory and copying of an ADD. Defaults to copies, which belong to the consumer.
	SharedOutput bool
	// Logger gets one warning per Rejection if Rejected is nil. Defaults to none.
	Logger *zap.Logger
}

// Store knows the pods of every source and merges what the sources say into one stream of changes. It has no
// goroutines and is safe for concurrent use.
type Store struct {
	options StoreOptions
	mu      struct {
		sync.Mutex
		ledgers ordered[string, *ledger]
	}
}

// NewStore returns a store that holds the seed. Its error names the field that is wrong.
func NewStore(o StoreOptions) (*Store, error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	s := &Store{options: o}
	if err := s.Register(o.Sources...); err != nil {
		return nil, fmt.Errorf("podconfig: StoreOptions.Sources: %w", err)
	}
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
	s.options.Sources, s.options.Seed = nil, nil
	return s, nil
}

// Merge takes in one change of one source and returns what it means, in this order, each operation at most once:
//
//	REMOVE, ADD, UPDATE, DELETE, [an empty ADD if it is the source's first Snapshot and none of ADD, UPDATE, DELETE came], RECONCILE
//
// Removed pods come in order of their arrival (Remove: in the order of the UIDs), all others in the order of the change.
// A pod is identified by source and UID; what its name means is told in the package documentation.
//
// The pods of c are neither edited nor kept. Pods that cannot be accepted go to StoreOptions.Rejected and never fail
// the others. An error wraps ErrNoSource, ErrUnknownChange or the cause of ctx's end, and means that nothing was merged.
//
// An Upsert or Remove costs what changes, however many pods there are. A Snapshot costs a look at each of its pods; in
// the source named SourceAPI a pod whose UID and resourceVersion are those of the last time is not compared.
//
// Merge may be called from several goroutines; each call is atomic. Who needs the order of the updates to be that of
// the merges calls it from one goroutine, or uses Run.
func (s *Store) Merge(ctx context.Context, source string, c Change) ([]Update, error) {
	switch {
	case source == "":
		return nil, ErrNoSource
	case c.kind < ChangeSnapshot || c.kind > ChangeRemove:
		return nil, fmt.Errorf("%w from source %q", ErrUnknownChange, source)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("podconfig: merge %s of source %q: %w", c.kind, source, context.Cause(ctx))
	}
	now := time.Now()
	pods, rejected := filter(c.pods)
	o, conflicts := s.apply(source, c, pods, now)

	s.reject(source, rejected)
	s.report(source, conflicts)
	if s.options.Observed != nil {
		for _, p := range o.added {
			s.options.Observed(source, p, now)
		}
	}
	return s.handOver(o.updates(source)), nil
}

func (s *Store) apply(source string, c Change, pods []*v1.Pod, now time.Time) (*outcome, []rejection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger(source)
	o := l.apply(c.kind, pods, c.uids, now)
	return o, conflicts(l, s.mu.ledgers.all(), o.added)
}

// ledger returns the ledger of a source, a new one if there is none. The caller holds the lock.
func (s *Store) ledger(source string) *ledger {
	l, ok := s.mu.ledgers.get(source)
	if !ok {
		l = newLedger(source)
		s.mu.ledgers.set(source, l)
	}
	return l
}

// handOver makes the stored pods of the updates the consumer's own.
func (s *Store) handOver(updates []Update) []Update {
	if s.options.SharedOutput {
		return updates
	}
	for _, u := range updates {
		for i, p := range u.Pods {
			u.Pods[i] = p.DeepCopy()
		}
	}
	return updates
}

// Register makes SeenAll wait for these sources. Merge and StoreOptions.Seed register a source as well. An error wraps
// ErrNoSource, and then nothing was registered.
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

// Drop forgets a source for good and returns the REMOVE of its pods, if it has any. The caller hands it to the consumer,
// after the last update of the source: call it when the source has ended.
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

// Seen tells whether a Snapshot of the source has been merged. Its updates may still be on their way to the consumer:
// who kills or deletes what no source has asks Readiness instead.
func (s *Store) Seen(source string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.mu.ledgers.get(source)
	return ok && l.seen
}

// SeenAll tells whether every registered source is seen; true if there are none. See Seen.
func (s *Store) SeenAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.mu.ledgers.all() {
		if !l.seen {
			return false
		}
	}
	return true
}

// Pods yields source and pod of all that the store held when the loop began: sources in order of registration, pods in
// order of arrival. The pods are the store's: they must not be edited, and never change. The loop may call the store.
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

// Replay returns what a consumer that knows nothing must hear first: one ADD per source with all that the store holds,
// in the order of Pods, never Synced. It serves a consumer that starts with a seed (StoreOptions.Seed) or starts anew;
// it must not run concurrently with Merge or Run, whose updates it would overtake or repeat.
func (s *Store) Replay() []Update {
	var out []Update
	for _, h := range s.holdings() {
		if len(h.pods) > 0 {
			out = append(out, Update{Op: OpAdd, Source: h.source, Pods: h.pods})
		}
	}
	return s.handOver(out)
}

// Get returns the pod that a source holds under a UID. It is the store's: it must not be edited, and never changes.
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
