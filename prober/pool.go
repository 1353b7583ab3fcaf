// SPDX-License-Identifier: Apache-2.0

package prober

import "time"

// usual estimates the 40th percentile of the durations of attempts, in small steps. Even if half of
// the attempts hang or are slow, usual stays the duration of the fast attempts.
type usual time.Duration

// The bounds of usual. The lower bound is the initial value.
const (
	leastUsual = 250 * time.Microsecond
	mostUsual  = 250 * time.Millisecond
)

// add updates u with the duration d of an attempt that was not cancelled and ended before its
// timeout.
func (u *usual) add(d time.Duration) {
	value := max(time.Duration(*u), leastUsual)
	if d > value {
		value += value / 20
	} else {
		value -= value * 3 / 40
	}
	*u = usual(min(max(value, leastUsual), mostUsual))
}

// patience is the time until an attempt loses its place to a waiting probe: four times the usual
// duration, 1 ms to 1 s.
func (u usual) patience() time.Duration { return 4 * max(time.Duration(u), leastUsual) }

// pool bounds the concurrent attempts of one kind of handler. Each attempt occupies a place until
// the attempt ends. While probes wait, an attempt much slower than usual loses its place and
// continues without a place. Any number of hanging attempts therefore cannot block waiting probes.
type pool struct {
	limit  int
	places []*attempt
	queue  line
	usual  usual
}

func newPool(limit int) pool { return pool{limit: limit, queue: line{kind: lineQueue}} }

// next returns the next waiting probe; nil if no probe waits or no place is free.
func (l *pool) next() *probe {
	for len(l.places) < l.limit {
		p := l.queue.pop()
		if p == nil || p.stage == StageQueued { // skip probes stopped while waiting
			return p
		}
	}
	return nil
}

// occupy gives a place to a.
func (l *pool) occupy(a *attempt) {
	a.place = len(l.places)
	l.places = append(l.places, a)
}

// vacate frees the place of a, if any.
func (l *pool) vacate(a *attempt) {
	if a.place == noPlace {
		return
	}
	last := len(l.places) - 1
	l.places[a.place] = l.places[last]
	l.places[a.place].place = a.place
	l.places[last] = nil
	l.places = l.places[:last]
	a.place = noPlace
}

// If probes wait, evict frees the places of attempts that have lasted longer than patience. It
// returns the time of the next check, and whether a probe waits.
func (l *pool) evict(now time.Time) (again time.Time, waiting bool) {
	if l.queue.empty() {
		return time.Time{}, false
	}
	patience := l.usual.patience()
	for i := len(l.places) - 1; i >= 0; i-- {
		a := l.places[i]
		until := a.started.Add(patience)
		if !until.After(now) {
			l.vacate(a)
			continue
		}
		if again.IsZero() || until.Before(again) {
			again = until
		}
	}
	return again, true
}

// learn records the duration of a finished attempt. If the attempt was slow enough to lose its
// place, the next attempt of the probe begins without a place, so the probe delays no other probe
// twice.
func (l *pool) learn(a *attempt) {
	took := a.ended.Sub(a.started)
	a.probe.slow = took >= l.usual.patience()
	if took < a.timeout {
		l.usual.add(took)
	}
}
