// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"time"

	"github.com/keelson-dev/keelson/internal/bucket"
)

// budgetBurst is the number of requests a pod may make at once before the interval applies.
const budgetBurst = bucket.Burst

// budget bounds the requests for one pod, whatever the API server answers. The interval is
// MaxBackoff. budget is pure: the caller passes now.
//
// Two limits hold together:
//   - Charged requests take from a bucket of budgetBurst, which regains one request per interval.
//     Every request is charged, except a patch that brings the server a status newly set by the
//     caller.
//   - A pod without news makes one request per interval. News are a new status, the end or the
//     deletion of the pod, and an object on the server with another UID. News permit budgetBurst
//     requests without the interval, for retries.
//
// Invariant: in a time T there are at most budgetBurst + T/interval charged requests, and
// budgetBurst more if the pod ends.
type budget struct {
	bucket bucket.Bucket
	// last is when the last request began.
	last time.Time
	// quick is the number of requests that need not keep the interval.
	quick int
}

// news records news for the server.
func (b *budget) news() { b.quick = budgetBurst }

// ends records the end of the pod, which happens once. It refills the bucket, so that earlier
// requests do not delay reporting the end.
func (b *budget) ends() {
	b.bucket = bucket.Bucket{}
	b.news()
}

// told records that the server has all news.
func (b *budget) told() { b.quick = 0 }

// began records the start of a request.
func (b *budget) began(now time.Time) {
	b.last = now
	b.quick = max(b.quick-1, 0)
}

// tries is how many requests there were since the last news, at most budgetBurst.
func (b *budget) tries() int { return budgetBurst - b.quick }

// charge takes a request out of the bucket.
func (b *budget) charge(now time.Time) { b.bucket.Charge(now, MaxBackoff) }

// due is when the next request may begin.
func (b *budget) due() time.Time {
	due := b.bucket.Due(MaxBackoff)
	if spaced := b.last.Add(MaxBackoff); b.quick == 0 && spaced.After(due) {
		due = spaced
	}
	return due
}
