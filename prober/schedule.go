// SPDX-License-Identifier: Apache-2.0

package prober

import "time"

// firstDue returns the first due time of an instance: exactly delay after its start, or now if the
// time has passed. The result has now's monotonic clock, so steps of the wall clock do not move the
// time.
func firstDue(now, startedAt time.Time, delay time.Duration) time.Time {
	elapsed := max(now.Sub(startedAt), 0)
	return now.Add(max(delay-elapsed, 0))
}

// adoptedDue is firstDue for an adopted instance. An overdue first attempt is delayed by spread, so
// that adopted instances are not all probed at once.
func adoptedDue(now, startedAt time.Time, delay, spread time.Duration) time.Time {
	due := firstDue(now, startedAt, delay)
	if due.After(now) {
		return due
	}
	return now.Add(spread)
}

// nextDue returns the next due time after an attempt due at due that began at began and ended now.
// Times keep their phase. Due times passed before the attempt began are skipped. If due times
// passed during the attempt, the latest counts, and the next attempt begins at once.
func nextDue(due, began, now time.Time, period time.Duration) time.Time {
	missed := began.Sub(due) / period
	next := due.Add((missed + 1) * period)
	passed := max(now.Sub(next)/period, 0)
	return next.Add(passed * period)
}

// changedDue returns the due time of a probe with a changed spec: not later than before, not later
// than a new period from now, and not before its new initial delay.
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
