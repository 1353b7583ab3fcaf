// SPDX-License-Identifier: Apache-2.0

package file

import (
	"time"

	"github.com/keelson-dev/keelson/internal/retry"
)

// step is the next action of Run.
type step uint8

const (
	stepNone step = iota
	stepGlance
	stepScan
	stepArm
)

// pace schedules the steps of Run: a glance when hints pause; a scan after hints were quiet for the
// debounce, at the latest after ten times the debounce; a scan at a recheck time; and a scan every
// period. It is plain data and receives times as arguments.
type pace struct {
	debounce, period time.Duration

	firstHint, lastHint time.Time // of the current burst of hints; zero without a burst
	glances             int       // number since lastHint; len(pausesPerDebounce) if further glances are useless
	recheck             time.Time
	scanned             time.Time
	arm                 time.Time // time of the next attempt to arm the watch; zero if armed or without a Hinter
	armDelay            time.Duration
}

// pausesPerDebounce are the divisors of the debounce for the pauses before glances. The first
// glance finds files renamed into place; the later glances find files written and closed within a
// moment.
var pausesPerDebounce = [...]time.Duration{50, 10, 4}

func (p *pace) hint(now time.Time) {
	if p.firstHint.IsZero() {
		p.firstHint = now
	}
	p.lastHint, p.glances = now, 0
}

// afterGlance records a glance. If no new file is left, glances stop until the next hint, because a
// glance looks only for new files, and a new file causes a hint.
func (p *pace) afterGlance(settled bool, recheck time.Time) {
	p.glances++
	if settled {
		p.glances = len(pausesPerDebounce)
	}
	p.recheck = retry.Earlier(p.recheck, recheck)
}

func (p *pace) afterScan(now, recheck time.Time) {
	p.firstHint, p.lastHint = time.Time{}, time.Time{}
	p.scanned, p.recheck = now, recheck
}

// watchEnded schedules arming the watch again soon, because the folder was probably replaced.
func (p *pace) watchEnded(now time.Time) { p.arm = now.Add(p.debounce) }

// armFailed schedules another attempt after a delay that grows from a second to the period.
func (p *pace) armFailed(now time.Time) {
	p.armDelay = min(max(2*p.armDelay, time.Second), max(p.period, time.Second))
	p.arm = now.Add(p.armDelay)
}

func (p *pace) armed() { p.arm, p.armDelay = time.Time{}, 0 }

// next returns the first due step and its time.
func (p *pace) next() (step, time.Time) {
	do, at := stepScan, p.scanned.Add(p.period)
	consider := func(s step, t time.Time) {
		if t.Before(at) {
			do, at = s, t
		}
	}
	if !p.firstHint.IsZero() {
		quiet, most := p.lastHint.Add(p.debounce), p.firstHint.Add(10*p.debounce)
		consider(stepScan, quiet)
		consider(stepScan, most)
		if p.glances < len(pausesPerDebounce) {
			consider(stepGlance, p.lastHint.Add(p.debounce/pausesPerDebounce[p.glances]))
		}
	} else if !p.recheck.IsZero() {
		consider(stepScan, p.recheck)
	}
	if !p.arm.IsZero() {
		consider(stepArm, p.arm)
	}
	return do, at
}
