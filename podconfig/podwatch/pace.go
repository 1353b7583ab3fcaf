// SPDX-License-Identifier: Apache-2.0

package podwatch

import (
	"context"
	"time"

	"github.com/keelson-dev/keelson/internal/retry"
)

// Backoff after consecutive short rounds of list and watch. The values are client-go's (0.37),
// chosen for servers with thousands of clients.
const (
	firstBackoff = 800 * time.Millisecond
	maxBackoff   = 30 * time.Second
	resetBackoff = 2 * time.Minute
)

// repeat calls round until ctx ends, with pauses spread by random, which returns values in [0, 1).
func repeat(ctx context.Context, random func() float64, round func(context.Context)) {
	for short := 0; ctx.Err() == nil; {
		begun := time.Now()
		round(ctx)
		if time.Since(begun) >= resetBackoff {
			short = 0
		}
		short++
		_ = retry.Sleep(ctx, retry.Backoff(short, firstBackoff, maxBackoff, random()))
	}
}
