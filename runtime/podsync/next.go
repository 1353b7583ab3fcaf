// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"time"
)

const (
	// firstPause is the pause after the first failed call. The pause doubles with each further
	// failure up to longestPause.
	firstPause, longestPause = time.Second, 10 * time.Second
	// namesakePause is the time between two syncs of a pod whose name is still taken.
	namesakePause = 100 * time.Millisecond
	// volumePatience is the longest time that a sync waits for the pod's volumes. The volumes are
	// set up further after that.
	volumePatience = 10 * time.Second
)

// earliest returns the earlier of two times. A zero time is ignored.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
