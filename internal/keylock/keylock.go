// SPDX-License-Identifier: Apache-2.0

// Package keylock has locks by key. Waiting for a lock ends with a context.
package keylock

import (
	"context"
	"sync"
)

// Locks is a set of locks, one for each key. The zero value has no held lock. All methods are safe
// for concurrent use.
type Locks[K comparable] struct {
	mu struct {
		sync.Mutex
		held map[K]chan struct{} // closed at the end of the hold
	}
}

// Lock waits until no other caller holds the lock of the key, or until the end of ctx. Call unlock
// once to release the lock. Waiting callers get the lock in no particular order. The error is the
// cause of ctx.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	for {
		busy, mine := l.try(key)
		if busy == nil {
			return func() {
				l.mu.Lock()
				delete(l.mu.held, key)
				l.mu.Unlock()
				close(mine)
			}, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try takes the lock, or returns the channel of the holder.
func (l *Locks[K]) try(key K) (busy, mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if busy := l.mu.held[key]; busy != nil {
		return busy, nil
	}
	if l.mu.held == nil {
		l.mu.held = make(map[K]chan struct{})
	}
	mine = make(chan struct{})
	l.mu.held[key] = mine
	return nil, mine
}
