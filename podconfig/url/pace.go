// SPDX-License-Identifier: Apache-2.0

package url

import (
	"time"

	"github.com/keelson-dev/keelson/internal/retry"
)

const (
	// firstRetry is the delay after the first failure of a source without pods.
	firstRetry = time.Second
	// maxRetryAfter limits a server's Retry-After.
	maxRetryAfter = 10 * time.Minute
	// jitter is the random part of the delay, in either direction.
	jitter = 0.1
)

// delay returns the wait before the next poll. random is in [0, 1).
//
// A source with pods polls every period, after successes and failures alike. A failing server thus
// receives no more requests than a healthy server, and its recovery is noticed within the period. A
// source without pods retries sooner, in doubling steps, because a network or server is often late
// by seconds at boot.
func delay(period time.Duration, good bool, failures int, retryAfter time.Duration, random float64) time.Duration {
	wait := period
	if !good && failures > 0 {
		wait = retry.Backoff(failures, firstRetry, period, 0)
	}
	wait += time.Duration(float64(wait) * jitter * (2*random - 1))
	return max(wait, min(retryAfter, maxRetryAfter))
}
