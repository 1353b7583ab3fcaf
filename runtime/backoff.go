// SPDX-License-Identifier: Apache-2.0

package runtime

import "time"

// Backoff is the crash-loop policy. The zero value is the kubelet's default: the first restart
// follows at once, the next restarts after 10 s, 20 s, 40 s … 300 s. The sequence begins again
// after an instance has lived for more than 10 minutes.
//
// The kubelet keeps this state in memory and loses it with a restart. Here back-off is a function
// of observations: each instance carries the delay before its replacement (annotationRestartDelay).
// A restart of the agent loses nothing, and no cleanup is needed.
type Backoff struct {
	Initial time.Duration // delay before the second restart. Defaults to 10 s
	Max     time.Duration // longest delay. Defaults to 300 s
	Reset   time.Duration // after an instance with a longer life the sequence begins again. Defaults to 600 s
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

// restart is the time of the next instance of a container, and the delay that the next instance
// carries for its successor.
type restart struct {
	At    time.Time     // earliest time; zero: at once
	Wait  time.Duration // the delay before At, for messages
	Delay time.Duration // annotationRestartDelay of the next instance
}

// next returns the restart after previous, the newest instance of a container that is to be started
// with the given hash. previous is nil for the first start.
//
// An instance with a failed start counts as ended at its creation, so containers with failed starts
// back off, too (not in the kubelet). An instance with another hash does not count: the sequence
// begins again after a change of the spec. If the end of previous is after now, because the clock
// was set back, there is no delay.
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
		delay = 0 // the clock was set back by an unknown time
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

// restartDelay returns the value of annotationRestartDelay, or zero for an invalid value. The worst
// effect of zero is a single restart without delay.
func restartDelay(c *ContainerStatus) time.Duration {
	d, _ := time.ParseDuration(c.Annotations[annotationRestartDelay]) // an error comes with zero
	return max(d, 0)
}
