// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"time"

	"github.com/keelson-dev/keelson/internal/retry"
)

const (
	// firstPause and longestPause limit the pause between attempts on an object that the server
	// refuses. The first pause is short, because the Node authorizer knows a new pod some
	// milliseconds after the node does.
	firstPause   = 50 * time.Millisecond
	longestPause = 30 * time.Second
	// firstOutage and longestOutage limit the pause between attempts during a server outage. Each
	// attempt is a single request, whatever the number of objects.
	firstOutage   = 200 * time.Millisecond
	longestOutage = 10 * time.Second
	// longestDelay caps the server's Retry-After.
	longestDelay = time.Minute
	// spread is the time over which ended watches are opened again, so that nodes do not reconnect
	// at the same moment.
	spread = time.Second
	// standing is the time after which a watch counts as stable. A watch that ends earlier counts
	// as failed.
	standing = 5 * time.Second
)

// uplink is the state of the connection to the server. The zero value is a working connection.
type uplink struct {
	failures  int
	failed    time.Time
	notBefore time.Time
}

// works records an answer of the server, also an error answer.
func (u *uplink) works() { *u = uplink{} }

// fails records that a request begun at begun got no answer. Concurrent requests fail together and
// count once.
func (u *uplink) fails(begun, now time.Time, delay time.Duration, random float64) {
	if u.failures > 0 && begun.Before(u.failed) {
		return
	}
	u.failures++
	u.failed = now
	u.notBefore = now.Add(max(delay, retry.Backoff(u.failures, firstOutage, longestOutage, random)))
}

// allowed returns the number of objects that may be opened at the same time. If the number is 0,
// again is the time of the next attempt.
func (u *uplink) allowed(now time.Time, most int) (n int, again time.Time) {
	switch {
	case u.failures == 0:
		return most, time.Time{}
	case now.Before(u.notBefore):
		return 0, u.notBefore
	}
	return 1, time.Time{}
}
