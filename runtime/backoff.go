// SPDX-License-Identifier: Apache-2.0

package runtime

import "time"

// Backoff is the crash-loop policy. The zero value is the kubelet's default:
// the first restart at once, then 10 s, 20 s, 40 s … 300 s, and a fresh start
// after an instance has lived for more than 10 minutes.
//
// The kubelet keeps this state in memory and forgets it when it restarts. Here
// it is a function of what was observed: each instance carries the delay its
// replacement has to wait (annotationRestartDelay), so nothing is lost with the
// agent, and nothing has to be cleaned up.
type Backoff struct {
	Initial time.Duration // delay before the second restart. Defaults to 10 s
	Max     time.Duration // longest delay. Defaults to 300 s
	Reset   time.Duration // an instance that lived longer starts afresh. Defaults to 600 s
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial <= 0 {
		b.Initial = 10 * time.Second
	}
	if b.Max <= 0 {
		b.Max = 300 * time.Second
	}
	if b.Reset <= 0 {
		b.Reset = 600 * time.Second
	}
	b.Initial = min(b.Initial, b.Max)
	return b
}

// restart is when the next instance of a container may start, and the delay that the instance
// carries for its own successor.
type restart struct {
	At    time.Time     // not before; zero = at once
	Wait  time.Duration // the delay that At comes from, for people
	Delay time.Duration // the next instance's annotationRestartDelay
}

// next decides the restart that follows previous, the newest instance of a
// container that is to be started with the given hash; nil = first start.
//
// An instance whose start failed counts as one that ended when it was created,
// so such containers back off too (in the kubelet they do not). An instance of
// another hash says nothing about this one: a changed spec starts afresh. An end
// that lies after now (the clock was set back) owes no delay.
func (b Backoff) next(previous *ContainerStatus, hash string, now time.Time) restart {
	b = b.withDefaults()
	if previous == nil || previous.Hash != hash {
		return restart{}
	}
	began, ended := previous.StartedAt, previous.FinishedAt
	if began.IsZero() {
		began = previous.CreatedAt
	}
	if previous.State == StateCreated {
		began, ended = previous.CreatedAt, previous.CreatedAt
	}
	delay := min(restartDelay(previous), b.Max)
	if ended.After(now) {
		delay = 0 // the clock was set back, nobody knows how far
	}
	switch {
	case ended.Sub(began) > b.Reset:
		return restart{Delay: b.Initial}
	case delay == 0:
		return restart{Delay: b.Initial}
	default:
		return restart{At: ended.Add(delay), Wait: delay, Delay: min(2*delay, b.Max)}
	}
}

// restartDelay reads annotationRestartDelay. What cannot be read is zero: the
// worst that follows is one restart without a delay.
func restartDelay(c *ContainerStatus) time.Duration {
	d, err := time.ParseDuration(c.Annotations[annotationRestartDelay])
	if err != nil || d < 0 {
		return 0
	}
	return d
}
