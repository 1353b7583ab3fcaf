// SPDX-License-Identifier: Apache-2.0

// Package bucket bounds the requests for one object, whatever the server answers.
package bucket

import "time"

// Burst is how many requests a full Bucket allows at once.
const Burst = 5

// Bucket holds Burst requests and regains one per interval. The zero value is full. Bucket is pure: the caller passes
// now.
//
// Invariant: if no request begins before Due, in a time T there are at most Burst + T/interval charged requests.
type Bucket struct {
	// full is when the bucket is full again.
	full time.Time
}

// Charge takes a request out of the bucket.
func (b *Bucket) Charge(now time.Time, interval time.Duration) {
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(interval)
}

// Due returns when the bucket holds a request, possibly long ago.
func (b *Bucket) Due(interval time.Duration) time.Time {
	return b.full.Add(-(Burst - 1) * interval)
}

// Full reports whether the bucket equals a new bucket.
func (b *Bucket) Full(now time.Time) bool { return !b.full.After(now) }
