// SPDX-License-Identifier: Apache-2.0

package url

import "time"

const (
	// firstRetry is the delay after the first failure of a source that has no pods yet.
	firstRetry = time.Second
	// maxRetryAfter bounds what a server can ask for.
	maxRetryAfter = 10 * time.Minute
	// jitter is the part of the delay that is up to chance, in either direction.
	jitter = 0.1
)

// delay decides how long to wait before the next poll. random is in [0, 1).
//
// A source that has pods polls every period, whether that succeeds or not: a failing server gets no more requests than
// a healthy one, and a repaired one is noticed within the period. One that has none yet tries again sooner, in doubling
// steps, because at boot a network or a server is often late by seconds.
func delay(period time.Duration, good bool, failures int, retryAfter time.Duration, random float64) time.Duration {
	wait := period
	if !good && failures > 0 {
		wait = min(period, firstRetry<<min(failures-1, 20))
	}
	wait += time.Duration(float64(wait) * jitter * (2*random - 1))
	return max(wait, min(retryAfter, maxRetryAfter))
}
