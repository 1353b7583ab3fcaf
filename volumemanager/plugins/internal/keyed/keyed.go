// SPDX-License-Identifier: Apache-2.0

// Package keyed is a mutex per key; a waiting caller can give up through its context.
package keyed

import (
	"context"
	"sync"
)

// Turns is a set of mutexes by key. The zero value is ready.
type Turns[K comparable] struct {
	mu    sync.Mutex
	queue map[K]*turn
}

type turn struct {
	free  chan struct{} // holds a token while the turn is free
	users int
}

// Take waits for the turn of key. Call back once to release the turn. The error is the cause of
// ctx.
func (t *Turns[K]) Take(ctx context.Context, key K) (back func(), err error) {
	q := t.join(key)
	select {
	case <-q.free:
		return func() { q.free <- struct{}{}; t.leave(key) }, nil
	case <-ctx.Done():
		t.leave(key)
		return nil, context.Cause(ctx)
	}
}

func (t *Turns[K]) join(key K) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue == nil {
		t.queue = map[K]*turn{}
	}
	q := t.queue[key]
	if q == nil {
		q = &turn{free: make(chan struct{}, 1)}
		q.free <- struct{}{}
		t.queue[key] = q
	}
	q.users++
	return q
}

func (t *Turns[K]) leave(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queue[key]; q.users == 1 {
		delete(t.queue, key)
	} else {
		q.users--
	}
}
