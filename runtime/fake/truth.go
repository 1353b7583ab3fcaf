// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// Truth returns the true and full status of every pod in creation order, for tests that check an
// agent from outside. Truth takes no time, ignores faults and lies, and adds no journal entry.
// Containers hidden by LoseTrack are still reported as unknown. The caller owns the statuses.
func (w *World) Truth() []*runtime.PodStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.fullStatuses()
	for _, st := range all {
		st.ObservedAt = time.Now()
	}
	return all
}

// Now returns the current time on the journal's clock: the time since the World was made.
func (w *World) Now() time.Duration { return time.Since(w.born) }
