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

// pause is the time between a call and the next of the same state.
type pause struct {
	delay time.Duration
	exact bool // without jitter
	hasty bool // the call asked for a repetition at a time already passed
}

// pauseAfter returns the pause after a call. wasHasty is pause.hasty of the call before.
func pauseAfter(ev SyncEvent, wasHasty bool) pause {
	at := ev.Outcome.Again
	if ev.Err != nil {
		at, _ = earliestRetry(ev.Err)
	}
	switch {
	case errors.Is(ev.Err, ErrTransient):
		return pause{delay: transientBackoff}
	case at.IsZero() && ev.Err != nil:
		return pause{delay: retryInterval}
	case at.IsZero() && ev.Outcome.Rests:
		return pause{delay: restInterval}
	case at.IsZero():
		return pause{delay: resyncInterval}
	}
	delay := min(max(at.Sub(ev.Ended), 0), resyncInterval)
	if delay == 0 && wasHasty {
		return pause{delay: transientBackoff, exact: true, hasty: true}
	}
	return pause{delay: delay, exact: true, hasty: delay == 0}
}
