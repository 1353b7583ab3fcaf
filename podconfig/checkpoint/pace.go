// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"time"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podconfig"
)

// urgency is the urgency of writing a change.
type urgency uint8

const (
	matters urgency = iota
	canWait
)

// urgencyOf returns the urgency of an update. A terminated pod is urgent: it must not run again
// after a restart.
func urgencyOf(u podconfig.Update) urgency {
	if u.Op != podconfig.OpReconcile || u.Synced {
		return matters
	}
	for _, p := range u.Pods {
		if podfacts.IsTerminal(p.Status.Phase) {
			return matters
		}
	}
	return canWait
}

const (
	// writeDelay is the time for which changes are gathered before a write. There is at most a
	// single write per writeDelay.
	writeDelay = time.Second
	// statusDelay is the delay for changes of statuses alone, which are frequent and rarely matter.
	// Only the last status of a pod (phase Succeeded or Failed) is written within writeDelay.
	statusDelay = time.Minute

	firstRetry = time.Second
	lastRetry  = time.Minute
)

// pace schedules writes. It is plain data and receives times as arguments.
type pace struct {
	due   time.Time     // time of the next write; zero without a pending write
	hold  time.Time     // earliest time of a write after a failed write
	retry time.Duration // the pause after the next failure
}

func (p *pace) changed(now time.Time, delay time.Duration) {
	at := now.Add(delay)
	if at.Before(p.hold) {
		at = p.hold
	}
	if p.due.IsZero() || at.Before(p.due) {
		p.due = at
	}
}

func (p *pace) saved(now time.Time, err error) {
	if err == nil {
		*p = pace{}
		return
	}
	p.retry = min(max(2*p.retry, firstRetry), lastRetry)
	p.hold = now.Add(p.retry)
	p.due = p.hold
}
