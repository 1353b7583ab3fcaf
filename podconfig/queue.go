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

	"github.com/keelson-dev/keelson/internal/signal"
)

// ErrInvalidUpdate is wrapped by Queue.Push for an update without a source, with an Op unknown to a
// Store, or with a nil pod.
var ErrInvalidUpdate = errors.New("podconfig: invalid update")

// Queue is a mailbox of updates. Push never blocks. Pending updates are coalesced per pod. A slow
// consumer thus blocks no source, receives the latest state, and costs memory for at most two
// operations per pod.
//
//	pending               then       becomes
//	ADD                   REMOVE     nothing
//	ADD                   any other  ADD, with the latest content
//	UPDATE                RECONCILE  UPDATE
//	UPDATE, RECONCILE     DELETE     DELETE
//	any but ADD           REMOVE     REMOVE
//	REMOVE                ADD        both, in this order
//
// A coalesced update keeps the place of its first part. A ready mark of a source (an empty ADD, or
// Synced) is never lost, and is sent after all earlier updates of the source.
//
// A Queue is safe for concurrent use and has no goroutines.
type Queue struct {
	mu struct {
		sync.Mutex
		backlog *backlog
	}
	// wake holds a token whenever a waiting consumer may find an update.
	wake signal.Signal
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	q := &Queue{wake: signal.New()}
	q.mu.backlog = newBacklog()
	return q
}

// Push adds an update and takes ownership of its pods. It never blocks and ignores ctx, so that no
// update is lost during shutdown. It has the signature required by Run. An error wraps
// ErrInvalidUpdate; then the queue is unchanged.
func (q *Queue) Push(_ context.Context, u Update) error {
	if u.Source == "" || u.Op < OpAdd || u.Op > OpReconcile || slices.Contains(u.Pods, (*v1.Pod)(nil)) {
		return fmt.Errorf("%w: %s of %d pods from source %q", ErrInvalidUpdate, u.Op, len(u.Pods), u.Source)
	}
	q.mu.Lock()
	q.mu.backlog.push(u)
	q.mu.Unlock()
	q.wake.Notify()
	return nil
}

// Pop removes and returns the oldest update, combined with the following updates of the same Op and
// Source. It returns false if the queue is empty.
func (q *Queue) Pop() (Update, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.backlog.pop()
}

// All yields the updates of Pop and waits while the queue is empty. It ends at once with ctx;
// remaining updates stay in the queue. Several concurrent loops share the updates without a common
// order.
func (q *Queue) All(ctx context.Context) iter.Seq[Update] {
	return func(yield func(Update) bool) {
		// Another loop may be waiting for a token that this loop has consumed.
		defer q.wake.Notify()
		for ctx.Err() == nil {
			if u, ok := q.Pop(); ok {
				q.wake.Notify()
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

// Ready returns a channel that receives a value when Pop may have an update. Use it in a select
// with other channels. After receiving a value, call Pop until it returns false. All waits on the
// same channel, so use either All or Ready.
func (q *Queue) Ready() <-chan struct{} { return q.wake }

// Len returns the number of pending operations on single pods plus pending ready marks.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.backlog.entries.len()
}
