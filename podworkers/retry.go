// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"errors"
	"time"
)

// ErrTransient marks an error (errors.Is) with a short-lived cause, such as a network that is not
// ready: the call is retried after one second. ErrTransient takes precedence over RetryAfter. The
// kubelet looks for the text "network is not ready" instead.
var ErrTransient = errors.New("transient")

// RetryAfter returns an error that wraps err and schedules the retry exactly at the given time,
// without jitter. The worker does not wait longer than a minute, so a far time is reached in
// several steps. If an errors.Join tree contains several times, the earliest counts. A nil err
// gives nil: a success is not retried.
//
// A time in the past causes a retry at once, but only once in a row. If the next call of the same
// state asks for a past time again, the worker waits one second, so a stale time cannot cause a
// busy loop.
func RetryAfter(err error, at time.Time) error {
	if err == nil {
		return nil
	}
	return &retryError{err: err, at: at}
}

// retryError carries the time of the next try.
type retryError struct {
	err error
	at  time.Time
}

// Error returns the text of the wrapped error. The text omits the time, so a repeated error has the
// same text.
func (e *retryError) Error() string { return e.err.Error() }

func (e *retryError) Unwrap() error { return e.err }

// earliestRetry returns the earliest time asked for anywhere in the tree of err.
func earliestRetry(err error) (at time.Time, ok bool) {
	if e, isRetry := err.(*retryError); isRetry {
		at, ok = e.at, true
	}
	var below []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		below = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		below = e.Unwrap()
	}
	for _, b := range below {
		if t, found := earliestRetry(b); found && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	return at, ok
}

// The kubelet's delays (version 1.36).
const (
	resyncInterval   = time.Minute      // between the end of a successful SyncPod and the next
	retryInterval    = 10 * time.Second // between the end of a failed call and the next
	transientBackoff = time.Second      // the same for an ErrTransient

	// restInterval is resyncInterval for a pod with Outcome.Rests, which the kubelet does not have.
	restInterval = time.Hour
)

// spread says whether a delay may be jittered.
type spread uint8

const (
	spreadJitter spread = iota
	spreadExact
)

// ending is the result of a call that left the state unchanged.
type ending struct {
	err error
	// again is Outcome.Again; it counts if err is nil.
	again time.Time
	// rests is Outcome.Rests; it counts if err is nil.
	rests bool
	// hasty: the previous call asked for a repetition at a time already passed.
	hasty bool
}

// pause is the time between a call and the next of the same state.
type pause struct {
	delay  time.Duration
	spread spread
	hasty  bool // the call asked for a repetition at a time already passed
}

// pause returns the pause after a call that ended at now.
func (e ending) pause(now time.Time) pause {
	at := e.again
	if e.err != nil {
		at, _ = earliestRetry(e.err)
	}
	switch {
	case errors.Is(e.err, ErrTransient):
		return pause{delay: transientBackoff, spread: spreadJitter}
	case at.IsZero() && e.err == nil && e.rests:
		return pause{delay: restInterval, spread: spreadJitter}
	case at.IsZero() && e.err == nil:
		return pause{delay: resyncInterval, spread: spreadJitter}
	case at.IsZero():
		return pause{delay: retryInterval, spread: spreadJitter}
	}
	delay := min(max(at.Sub(now), 0), resyncInterval)
	if delay == 0 && e.hasty {
		return pause{delay: transientBackoff, spread: spreadExact, hasty: true}
	}
	return pause{delay: delay, spread: spreadExact, hasty: delay == 0}
}
