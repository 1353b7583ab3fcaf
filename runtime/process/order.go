// SPDX-License-Identifier: Apache-2.0

package process

import (
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// made is the creation time of a sandbox or of a container instance. number is the attempt or the
// restart count in the folder's name.
type made struct {
	number int64
	at     time.Time
}

// orderBroken sets CreatedAt of sandboxes and containers with broken records, from the attempts and
// restart counts. The modification time of the folder is no substitute: the time changes whenever a
// file in the folder is made or removed, and a broken sandbox could seem newer than the sandbox's
// replacement. After the clock was set back, the modification time is in the future.
func orderBroken(st *runtime.PodStatus) {
	var sandboxes []made
	for _, s := range st.Sandboxes {
		sandboxes = append(sandboxes, made{int64(s.Attempt), s.CreatedAt})
	}
	for i := range st.Sandboxes {
		if s := &st.Sandboxes[i]; s.CreatedAt.IsZero() {
			s.CreatedAt = among(sandboxes, int64(s.Attempt))
		}
	}
	containers := map[string][]made{}
	for i := range st.Containers {
		c := &st.Containers[i]
		containers[c.Name] = append(containers[c.Name], made{int64(c.RestartCount), c.CreatedAt})
	}
	for i := range st.Containers {
		if c := &st.Containers[i]; c.CreatedAt.IsZero() {
			c.CreatedAt = among(containers[c.Name], int64(c.RestartCount))
		}
	}
}

// among returns a time for a sibling that has a number and no time: 1 ns before the siblings with
// this number or a higher number, else 1 ns after the siblings with a lower number. The result is
// zero if no sibling has a time.
func among(siblings []made, number int64) time.Time {
	var before, after time.Time
	for _, s := range siblings {
		switch {
		case s.at.IsZero():
		case s.number >= number && (before.IsZero() || s.at.Before(before)):
			before = s.at
		case s.number < number && s.at.After(after):
			after = s.at
		}
	}
	switch {
	case !before.IsZero():
		return before.Add(-time.Nanosecond)
	case !after.IsZero():
		return after.Add(time.Nanosecond)
	}
	return time.Time{}
}
