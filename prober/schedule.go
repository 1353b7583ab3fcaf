// SPDX-License-Identifier: Apache-2.0

package prober

import "time"

// firstDue is when an instance is probed first: exactly delay after it started, or now if that has passed. The result
// has now's monotonic clock, so that it is not moved by steps of the wall clock.
func firstDue(now, startedAt time.Time, delay time.Duration) time.Time {
	elapsed := max(now.Sub(startedAt), 0)
	return now.Add(max(delay-elapsed, 0))
}

// adoptedDue is firstDue of an instance that ran before: not with all the others at once.
func adoptedDue(now, startedAt time.Time, delay, spread time.Duration) time.Time {
	due := firstDue(now, startedAt, delay)
	if due.After(now) {
		return due
	}
	return now.Add(spread)
}

// nextDue is when the attempt after one is due that was due at due, began at began and has ended now. Times keep their
// phase. Those that had passed when the attempt began were missed; of those that passed while it was under way the
// latest counts: then the next begins at once.
func nextDue(due, began, now time.Time, period time.Duration) time.Time {
	if missed := began.Sub(due) / period; missed > 0 {
		due = due.Add(missed * period)
	}
	next := due.Add(period)
	if passed := now.Sub(next) / period; passed > 0 {
		next = next.Add(passed * period)
	}
	return next
}

// changedDue is when a probe whose spec has changed is due: no later than it was, nor than a new period from now, and
// not before its new initial delay.
func changedDue(now, was time.Time, startedAt time.Time, t Timing) time.Time {
	due := now.Add(t.Period)
	if was.Before(due) {
		due = was
	}
	if first := firstDue(now, startedAt, t.InitialDelay); due.Before(first) {
		due = first
	}
	return due
}
