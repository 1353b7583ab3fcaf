// SPDX-License-Identifier: Apache-2.0

package apiserver

import "time"

const (
	// firstPause and longestPause are between attempts on one object that the server refuses. The first is short: the Node
	// authorizer hears of a pod some milliseconds after its node.
	firstPause   = 50 * time.Millisecond
	longestPause = 30 * time.Second
	// firstOutage and longestOutage are between attempts on a server that is away. Each is one request, whatever the
	// number of objects.
	firstOutage   = 200 * time.Millisecond
	longestOutage = 10 * time.Second
	// longestDelay is the longest Retry-After that is believed.
	longestDelay = time.Minute
	// spread is the time within which watches that ended are opened again, so that nodes do not come back as one.
	spread = time.Second
	// standing is how long a watch must have gone on not to count as failed.
	standing = 5 * time.Second
)

// backoff is how long to wait after the n-th failure in a row, 1 being the first. random is in [0, 1); the wait is up to
// twice as long by it.
func backoff(n int, first, longest time.Duration, random float64) time.Duration {
	wait := min(longest, first<<min(max(n-1, 0), 20))
	return wait + time.Duration(float64(wait)*random)
}

// uplink is what is known of the way to the server. The zero value is one that works.
type uplink struct {
	failures  int
	failed    time.Time
	notBefore time.Time
}

// works notes an answer, whatever it was.
func (u *uplink) works() { *u = uplink{} }

// fails notes that a request that began then got no answer. Those that were under way together fail together, and
// count once.
func (u *uplink) fails(begun, now time.Time, delay time.Duration, random float64) {
	if u.failures > 0 && begun.Before(u.failed) {
		return
	}
	u.failures++
	u.failed = now
	u.notBefore = now.Add(max(delay, backoff(u.failures, firstOutage, longestOutage, random)))
}

// allowed is how many objects may be opened at once, and when it is worth looking again if it is none.
func (u *uplink) allowed(now time.Time, most int) (n int, again time.Time) {
	switch {
	case u.failures == 0:
		return most, time.Time{}
	case now.Before(u.notBefore):
		return 0, u.notBefore
	}
	return 1, time.Time{}
}
