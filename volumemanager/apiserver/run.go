// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
)

// Run watches what registered pods use until ctx ends; then it returns nil, and every goroutine and request has ended.
// What is known is still given out after that. There is one Run per Objects.
func (o *Objects) Run(ctx context.Context) error {
	o.mu.Lock()
	again := o.mu.running
	o.mu.running = true
	o.mu.Unlock()
	if again {
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

// silent keeps client-go from logging, to stderr if the context has no logger: what it meets is reported here, and its
// lines may hold whole objects.
func silent(ctx context.Context) context.Context { return logr.NewContext(ctx, logr.Discard()) }

// dispatch begins the rounds that may begin now, and returns when time alone will allow another; false if it will not.
func (o *Objects) dispatch(ctx context.Context, rounds *sync.WaitGroup) (again time.Time, ok bool) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		due, waiting := o.mu.queue.next()
		if !waiting {
			return time.Time{}, false
		}
		most, reopened := o.mu.uplink.allowed(now, o.options.MaxOpens)
		switch {
		case o.mu.opening >= max(most, 1):
			return time.Time{}, false // whoever opens wakes Run
		case due.After(now) || most == 0:
			if reopened.After(due) {
				due = reopened
			}
			return due, true
		}
		e := o.mu.queue.take()
		e.enter(PhaseOpening, now)
		roundCtx, cancel := context.WithCancel(ctx)
		e.cancel = cancel
		o.mu.opening++
		rounds.Go(func() {
			defer cancel()
			o.round(roundCtx, e)
		})
	}
}

// tell passes on what there is to tell. Run alone calls it.
func (o *Objects) tell() {
	o.mu.Lock()
	untold := o.mu.report.take()
	o.mu.Unlock()
	for _, e := range untold {
		switch {
		case o.options.Problem != nil && e == nil:
			o.options.Problem(nil)
		case o.options.Problem != nil:
			o.options.Problem(e)
		case e == nil:
			o.options.Logger.Info("API server is well again")
		default:
			o.options.Logger.Warn("cannot follow an object of the API server", zap.String("kind", string(e.Ref.Kind)),
				zap.String("namespace", e.Ref.Namespace), zap.String("name", e.Ref.Name), zap.Error(e))
		}
	}
}

// failed notes a failure of an attempt on e, or of its watch, and when to try again. The lock is held.
func (o *Objects) failed(e *entry, problem *Error, begun time.Time) {
	now := time.Now()
	e.problem = problem
	e.enter(PhaseWaiting, now)
	due := now
	if problem.outage() {
		o.mu.uplink.fails(begun, now, problem.delay(), rand.Float64())
	} else {
		e.failures++
		due = now.Add(max(problem.delay(), backoff(e.failures, firstPause, longestPause, rand.Float64())))
	}
	o.mu.report.failed(problem, e.failures)
	o.mu.queue.put(e, due)
}
