// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/retry"
)

// Run watches the objects used by registered pods until ctx ends. It returns nil after every
// goroutine and request has ended. Known objects are still returned after Run. A second Run is an
// error.
func (o *Objects) Run(ctx context.Context) error {
	if o.ran.Swap(true) {
		return ErrRunning
	}
	defer close(o.stopped)
	var rounds sync.WaitGroup
	defer rounds.Wait()
	running, cancel := context.WithCancel(silent(ctx))
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		again, ok := o.dispatch(running, &rounds)
		timer.Stop()
		if ok {
			timer.Reset(time.Until(again))
		}
		o.tell()
		select {
		case <-ctx.Done():
			return nil
		case <-o.kick:
		case <-timer.C:
		}
	}
}

// silent prevents log output of client-go; without a logger in the context, client-go logs to
// stderr. This package reports the errors itself, and log lines of client-go may contain whole
// objects.
func silent(ctx context.Context) context.Context { return logr.NewContext(ctx, logr.Discard()) }

// dispatch starts the rounds that may start now. again is the time of the next start; ok is false
// if the next start depends on an event.
func (o *Objects) dispatch(ctx context.Context, rounds *sync.WaitGroup) (again time.Time, ok bool) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		due, waiting := o.mu.queue.next()
		if !waiting {
			return time.Time{}, false
		}
		most, reopened := o.mu.uplink.allowed(now, maxOpens)
		switch {
		case o.mu.opening >= max(most, 1):
			return time.Time{}, false // the end of an opening wakes Run
		case due.After(now) || most == 0:
			if reopened.After(due) {
				due = reopened
			}
			return due, true
		}
		e := o.mu.queue.take()
		e.phase = phaseOpening
		roundCtx, cancel := context.WithCancel(ctx)
		e.cancel = cancel
		o.mu.opening++
		rounds.Go(func() {
			defer cancel()
			o.round(roundCtx, e)
		})
	}
}

// tell reports the pending failures. Only Run calls it.
func (o *Objects) tell() {
	o.mu.Lock()
	untold := o.mu.report.take()
	o.mu.Unlock()
	for _, e := range untold {
		if e == nil {
			o.options.Logger.Info("requests to the API server succeed again")
			continue
		}
		o.options.Logger.Warn("cannot follow an object of the API server", zap.String("kind", string(e.Ref.Kind)),
			zap.String("namespace", e.Ref.Namespace), zap.String("name", e.Ref.Name), zap.Error(e))
	}
}

// failed records a failure of an attempt on e, or of its watch, and schedules the retry. The lock
// is held.
func (o *Objects) failed(e *entry, problem *Error, begun time.Time) {
	now := time.Now()
	e.problem = problem
	e.phase = phaseWaiting
	due := now
	if problem.outage() {
		o.mu.uplink.fails(begun, now, problem.delay(), o.options.Random())
	} else {
		e.failures++
		due = now.Add(max(problem.delay(), retry.Backoff(e.failures, firstPause, longestPause, o.options.Random())))
	}
	o.mu.report.failed(problem, e.failures)
	o.mu.queue.put(e, due)
}
