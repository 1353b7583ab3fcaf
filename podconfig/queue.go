// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// ErrInvalidUpdate is wrapped by Queue.Push: the update has no source, an Op that is none of a Store, or a nil pod.
var ErrInvalidUpdate = errors.New("podconfig: invalid update")

// Queue is an unbounded mailbox that cannot grow: what has not been consumed is coalesced per pod, so that a slow
// consumer blocks nobody, hears the latest state, and owes memory for each pod at most twice.
//
//	pending               then       becomes
//	ADD                   REMOVE     nothing
//	ADD                   any other  ADD, with the latest content
//	UPDATE                RECONCILE  UPDATE
//	UPDATE, RECONCILE     DELETE     DELETE
//	any but ADD           REMOVE     REMOVE
//	REMOVE                ADD        both, in this order
//
// An update keeps the place of the first that went into it. That a source is ready (an empty ADD, or Synced) outlives
// all coalescing, and is told no earlier than what the source had said before it.
//
// It is safe for concurrent use and has no goroutines.
type Queue struct {
	mu struct {
		sync.Mutex
		backlog *backlog
	}
	// wake holds a token whenever there may be something for a consumer that waits.
	wake chan struct{}
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	q := &Queue{wake: make(chan struct{}, 1)}
	q.mu.backlog = newBacklog()
	return q
}

// Push adds an update and takes over its pods. It never blocks and does not look at ctx, so that nothing is lost while
// everything ends; it has the signature that Run wants. An error wraps ErrInvalidUpdate, and then nothing was added.
func (q *Queue) Push(_ context.Context, u Update) error {
	if u.Source == "" || u.Op < OpAdd || u.Op > OpReconcile || slices.Contains(u.Pods, (*v1.Pod)(nil)) {
		return fmt.Errorf("%w: %s of %d pods from source %q", ErrInvalidUpdate, u.Op, len(u.Pods), u.Source)
	}
	q.mu.Lock()
	q.mu.backlog.push(u)
	q.mu.Unlock()
	q.signal()
	return nil
}

// Pop takes out the oldest update, together with what follows it in the queue and has the same Op and Source. It
// returns false if there is nothing.
func (q *Queue) Pop() (Update, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.backlog.pop()
}

// All yields updates as Pop returns them, waits for the next one when there is none, and ends with ctx, at once and
// whatever is left; what is left stays in the queue. Several loops at once share the updates, and their order is lost.
func (q *Queue) All(ctx context.Context) iter.Seq[Update] {
	return func(yield func(Update) bool) {
		for ctx.Err() == nil {
			u, ok := q.Pop()
			if ok {
				// Another loop may be waiting for the token that this one took.
				q.signal()
				if !yield(u) {
					return
				}
				continue
			}
			select {
			case <-q.wake:
			case <-ctx.Done():
			}
		}
	}
}

// Ready receives a value when Pop may have something to return, for a consumer that waits for other things as well. It
// then calls Pop until that returns false. The channel is the one that All waits on, so use one or the other.
func (q *Queue) Ready() <-chan struct{} { return q.wake }

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Len returns how many operations on single pods, and marks that a source is ready, are waiting.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.backlog.entries.len()
}
