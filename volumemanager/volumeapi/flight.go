// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"context"
	"sync"
)

// flights shares a request between concurrent callers with the same key. The zero value is ready. A
// request runs in the goroutine and with the ctx of the first caller. If this ctx ends, the next
// waiting caller makes a new request.
type flights[K comparable, V any] struct {
	mu  sync.Mutex
	now map[K]*flight[V]
}

type flight[V any] struct {
	landed chan struct{}
	value  V
	err    error
	broken bool // the ctx of the first caller has ended
}

func (f *flights[K, V]) do(ctx context.Context, key K, request func(context.Context) (V, error)) (V, error) {
	for {
		mine, other := f.join(key)
		if other == nil {
			defer f.land(key, mine)
			mine.value, mine.err = request(ctx)
			mine.broken = mine.err != nil && ctx.Err() != nil
			return mine.value, mine.err
		}
		select {
		case <-other.landed:
			if !other.broken {
				return other.value, other.err
			}
		case <-ctx.Done():
			var none V
			return none, context.Cause(ctx)
		}
	}
}

// join returns a new flight, or the flight of another caller.
func (f *flights[K, V]) join(key K) (mine, other *flight[V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if other = f.now[key]; other != nil {
		return nil, other
	}
	if f.now == nil {
		f.now = map[K]*flight[V]{}
	}
	mine = &flight[V]{landed: make(chan struct{}), broken: true}
	f.now[key] = mine
	return mine, nil
}

func (f *flights[K, V]) land(key K, mine *flight[V]) {
	f.mu.Lock()
	delete(f.now, key)
	f.mu.Unlock()
	close(mine.landed)
}
