// SPDX-License-Identifier: Apache-2.0

package file

import "time"

// step is what Run does next.
type step uint8

const (
	stepNone step = iota
	stepGlance
	stepScan
	stepArm
)

// pace decides when to look: a glance as soon as the hints pause, a scan when they have been quiet for the debounce, or
// at the latest after ten times that, a scan when something is to be looked at again, and a scan every period in any
// case. It is plain data; times come in as values.
type pace struct {
	debounce, period time.Duration

	firstHint, lastHint time.Time // of the burst that no scan has answered; zero if there is none
	glances             int       // since lastHint; as many as there are pauses if no more are worth it
	recheck             time.Time
	scanned             time.Time
	arm                 time.Time // when to arm the watch again; zero if it is armed or there is none
	armDelay            time.Duration
}

// pausesPerDebounce is how much shorter than the debounce the pauses before a glance are: the first finds what was put in
// place at once, the others what took a moment to be written and closed.
var pausesPerDebounce = [...]time.Duration{50, 10, 4}

func (p *pace) hint(now time.Time) {
	if p.firstHint.IsZero() {
		p.firstHint = now
	}
	p.lastHint, p.glances = now, 0
}

// afterGlance notes a glance. One that left nothing to be taken is the last until there is another hint: a glance is for
// new files, and none comes without a hint.
func (p *pace) afterGlance(settled bool, recheck time.Time) {
	p.glances++
	if settled {
		p.glances = len(pausesPerDebounce)
	}
	p.recheck = earliest(p.recheck, recheck)
}

func (p *pace) afterScan(now, recheck time.Time) {
	p.firstHint, p.lastHint = time.Time{}, time.Time{}
	p.scanned, p.recheck = now, recheck
}

// watchEnded plans to arm the watch again soon: the folder was replaced, most likely.
func (p *pace) watchEnded(now time.Time) { p.arm = now.Add(p.debounce) }

// armFailed plans to try again after a delay that grows from one second to the period.
func (p *pace) armFailed(now time.Time) {
	p.armDelay = min(max(2*p.armDelay, time.Second), max(p.period, time.Second))
	p.arm = now.Add(p.armDelay)
}

func (p *pace) armed() { p.arm, p.armDelay = time.Time{}, 0 }

// next returns the step that is due first, and when.
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
