// SPDX-License-Identifier: Apache-2.0

// Package retry has the waits between tries.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d. Sleep returns the error of ctx if ctx ends earlier, and returns at once if d is not positive.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Backoff returns the wait after the n-th consecutive failure, counted from 1: first, doubled with each further
// failure, at most longest. random is in [0, 1) and makes the wait up to twice as long, so that the nodes of a cluster
// do not retry at the same instant.
func Backoff(n int, first, longest time.Duration, random float64) time.Duration {
	wait := min(longest, first<<min(max(n-1, 0), 20))
	return wait + time.Duration(float64(wait)*random)
}

// Earlier returns the earlier of two times. A zero time is none.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// AddUpToHalf returns a wait evenly distributed in [d, 1.5 d), which spreads the waits of many pods and nodes.
func AddUpToHalf(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*float64(d)/2)
}
