// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"math/rand/v2"
	"time"
)

// These are client-go's numbers (0.37), chosen for servers with thousands of clients.
const (
	firstBackoff = 800 * time.Millisecond
	maxBackoff   = 30 * time.Second
	resetBackoff = 2 * time.Minute
)

// backoff decides how long to wait between two rounds of list and watch: after the first of a row of short rounds, the
// second, and so on. A round is short if it did not last. random is in [0, 1); the wait is up to twice as long by it, so
// that the nodes of a cluster do not come back as one.
func backoff(short int, random float64) time.Duration {
	wait := min(maxBackoff, firstBackoff<<min(max(short-1, 0), 10))
	return wait + time.Duration(float64(wait)*random)
}

// repeat calls round until ctx ends, with pauses.
func repeat(ctx context.Context, round func(context.Context)) {
	for short := 0; ctx.Err() == nil; {
		begun := time.Now()
		round(ctx)
		if time.Since(begun) >= resetBackoff {
			short = 0
		}
		short++
		pause(ctx, backoff(short, rand.Float64()))
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
