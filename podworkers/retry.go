// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"errors"
	"fmt"
	"time"
)

// ErrTransient marks an error (errors.Is) that will soon pass by itself, such as a network that is not ready yet: the
// call is retried after Options.TransientBackoff. It wins over RetryAfter. The kubelet looks for the text "network is
// not ready" instead.
var ErrTransient = errors.New("transient")

// RetryAfter returns an error that wraps err and asks for the retry to come exactly at the given time, without
// jitter. The worker does not wait longer than Options.ResyncInterval, so a far time is reached in several steps. Of
// several in one errors.Join tree the earliest counts. A nil err gives nil: a success is not retried.
//
// A time that has already come retries at once, but only once in a row; if the same state then fails again with a
// time that has passed, the worker waits Options.TransientBackoff, so that a syncer with a stale time cannot spin.
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

func (e *retryError) Error() string {
	return fmt.Sprintf("%v (retry after %s)", e.err, e.at.Format(time.RFC3339))
}

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

// retryPolicy holds the delays of Options: resync is negative if there is no resync, the others are positive.
type retryPolicy struct {
	resync, backoff, transient time.Duration
}

// spread says whether a delay may be jittered.
type spread uint8

const (
	spreadJitter spread = iota
	spreadExact
)

// after returns how long to wait at time now after a call that left the state as it was and returned err. failures
// counts the failed calls in a row, this one included. A negative delay means never.
func (p retryPolicy) after(err error, failures int, now time.Time) (time.Duration, spread) {
	switch {
	case err == nil:
		return p.resync, spreadJitter
	case errors.Is(err, ErrTransient):
		return p.transient, spreadJitter
	}
	at, ok := earliestRetry(err)
	if !ok {
		return p.backoff, spreadJitter
	}
	delay := max(at.Sub(now), 0)
	if delay == 0 && failures > 1 {
		return p.transient, spreadExact
	}
	if p.resync >= 0 {
		delay = min(delay, p.resync)
	}
	return delay, spreadExact
}
