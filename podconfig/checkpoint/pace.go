// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
)

// urgency is how much it matters that a change is written soon.
type urgency uint8

const (
	matters urgency = iota
	canWait
)

// urgencyOf tells how much an update matters. That a pod has ended does: it must not run again after a restart.
func urgencyOf(u podconfig.Update) urgency {
	if u.Op != podconfig.OpReconcile || u.Synced {
		return matters
	}
	for _, p := range u.Pods {
		if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			return matters
		}
	}
	return canWait
}

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// pace decides when to write. It is plain data; times come in as values.
type pace struct {
	due   time.Time     // of the next write; zero if there is nothing to write
	hold  time.Time     // no write before, after one that failed
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
