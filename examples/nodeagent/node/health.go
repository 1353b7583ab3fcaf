// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// Timeouts of health checks. runtimePatience is far above the duration of a listing on a busy node,
// and both together are at most ten seconds.
const (
	loopPatience    = 2 * time.Second
	runtimePatience = 8 * time.Second
)

// runtimeHealth checks whether the runtime answers. Concurrent callers share one listing at a time.
type runtimeHealth struct {
	runtime runtime.Runtime
	turn    chan time.Time // capacity 1: start time of the last successful listing; the receiver may list
}

func newRuntimeHealth(rt runtime.Runtime) *runtimeHealth {
	h := &runtimeHealth{runtime: rt, turn: make(chan time.Time, 1)}
	h.turn <- time.Time{}
	return h
}

// check returns nil if a listing that started after the call succeeds before ctx ends, and within
// runtimePatience.
func (h *runtimeHealth) check(ctx context.Context) error {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, runtimePatience)
	defer cancel()
	select {
	case listed := <-h.turn:
		defer func() { h.turn <- listed }()
		if !listed.Before(asked) {
			return nil
		}
		began := time.Now()
		if _, err := h.runtime.List(ctx, runtime.ListOptions{}); err != nil {
			return fmt.Errorf("%w: no listing for %s: %w", runtime.ErrRuntimeDown, time.Since(asked).Round(time.Millisecond), err)
		}
		listed = began
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: a listing does not return for %s", runtime.ErrRuntimeDown, time.Since(asked).Round(time.Millisecond))
	}
}

// Alive returns nil once the loop has turned, and an error if ctx ends first. Before Run it always
// fails. While the agent stops its pods no loop runs, and Alive returns nil. Alive does not check
// the runtime; see Ready.
func (a *Agent) Alive(ctx context.Context) error {
	if a.state.stopping.Load() {
		return nil
	}
	select {
	case a.state.pings <- struct{}{}:
		return nil
	case <-ctx.Done():
		if a.state.stopping.Load() {
			return nil
		}
		return errors.New("the sync loop does not answer")
	}
}

// Ready returns nil if the node can start pods now: the loop turns, and the runtime answers a
// listing that starts after the call. Ready waits until ctx ends, and at most eight seconds for the
// runtime. The error wraps runtime.ErrRuntimeDown if the runtime does not answer.
func (a *Agent) Ready(ctx context.Context) error {
	if err := a.Alive(ctx); err != nil {
		return err
	}
	return a.health.check(ctx)
}

// serveHealth answers "ok", or the error of the first check that fails.
func (a *Agent) serveHealth(checks ...func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.state.stopping.Load() {
			fmt.Fprint(w, "ok, stopping")
			return
		}
		for _, check := range checks {
			if err := check(r.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		fmt.Fprint(w, "ok")
	}
}

func (a *Agent) loopTurns(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loopPatience)
	defer cancel()
	return a.Alive(ctx)
}
