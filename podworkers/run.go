// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/bigstack"
	"github.com/keelson-dev/keelson/internal/lifecycle"
)

// ErrAlreadyRun is returned by the second Run of a Workers.
var ErrAlreadyRun = errors.New("podworkers: Run was called before")

// Run starts the calls of all records, including updates from before Run, and continues until ctx
// ends. When ctx ends, updates are refused and calls are cancelled. Run returns nil as soon as
// every call has returned. A second call of Run returns ErrAlreadyRun.
func (w *Workers) Run(ctx context.Context) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	w.close()
	w.pending.Wait()
	return nil
}

// open starts every due call.
func (w *Workers) open(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.life != lifecycle.New {
		return ErrAlreadyRun
	}
	w.mu.life = lifecycle.Running
	w.mu.drive = func(e *entry) { w.drive(ctx, e) }
	for _, e := range w.mu.entries {
		w.dispatch(e)
	}
	return nil
}

// close refuses everything from now on and disarms the timers.
func (w *Workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.life = lifecycle.Stopped
	w.mu.drive = nil
	for _, e := range w.mu.entries {
		w.disarm(e)
	}
	close(w.stopped)
}

// dispatch starts the due call of e, unless no call is due or a goroutine already drives e. The
// lock is held.
func (w *Workers) dispatch(e *entry) {
	if e.driven || w.mu.drive == nil || w.mu.leaving[e.uid] > 0 || !e.due() {
		return
	}
	w.disarm(e)
	e.driven = true
	drive := w.mu.drive
	w.pending.Go(func() {
		bigstack.Grow()
		drive(e)
	})
}

// drive makes the calls of e until no call is due. drive owns the calls of e; only one drive runs
// per entry.
func (w *Workers) drive(ctx context.Context, e *entry) {
	for {
		callCtx, c, ok := w.begin(ctx, e)
		if !ok {
			return
		}
		ev := w.call(callCtx, c)
		ev.Interrupted = callCtx.Err() != nil
		c.cancel(nil)
		w.settle(e, c, ev)
		w.report(c, ev)
		w.succeed(e)
		w.tellForgotten()
	}
}

// begin returns the due call and its context. If no call is due, or Run is ending, begin parks e until its
// timer fires or an update arrives.
func (w *Workers) begin(ctx context.Context, e *entry) (context.Context, call, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil || e.forgotten || !e.due() {
		e.driven = false
		w.arm(e)
		return nil, call{}, false
	}
	ctx, e.cancel = context.WithCancelCause(ctx)
	c := e.begin()
	c.cancel = e.cancel
	return ctx, c, true
}

// call calls the syncer and returns the result.
func (w *Workers) call(ctx context.Context, c call) SyncEvent {
	ev := SyncEvent{
		UID: c.uid, Pod: c.request.Pod, State: c.kind.state(),
		Type: c.request.Type, Attempt: c.request.Attempt, Received: c.received, Started: time.Now(),
	}
	switch c.kind {
	case callSyncPod:
		ev.Outcome, ev.Err = w.syncer.SyncPod(ctx, c.request)
	case callTerminatingPod:
		ev.Err = w.syncer.SyncTerminatingPod(ctx, c.terminating())
	case callTerminatingOrphan:
		ev.Err = w.orphans.SyncTerminatingOrphan(ctx, *c.orphan, c.grace)
	case callTerminatedPod:
		ev.Err = w.syncer.SyncTerminatedPod(ctx, c.request)
	}
	ev.Ended = time.Now()
	return ev
}

// settle folds the end of a call into the record of e.
func (w *Workers) settle(e *entry, c call, ev SyncEvent) {
	p := pauseAfter(ev, c.hasty)
	if !p.exact {
		p.delay = max(w.options.Jitter(p.delay), 0)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.cancel = nil
	if e.settle(ev, p) {
		w.forget(e)
		return
	}
	w.react(e)
}

// report tells the hook and the log of a finished call. A failure that repeats with the same text
// is logged once.
func (w *Workers) report(c call, ev SyncEvent) {
	if w.options.OnSync != nil {
		w.options.OnSync(ev)
	}
	if ev.Err == nil || ev.Interrupted || c.lastErr != nil && c.lastErr.Error() == ev.Err.Error() {
		return
	}
	var name string
	if c.orphan != nil {
		name = c.orphan.Namespace + "/" + c.orphan.Name
	} else {
		name = ev.Pod.Namespace + "/" + ev.Pod.Name
	}
	w.options.Logger.Warn("pod sync failed", zap.String("podUID", string(ev.UID)), zap.Stringer("state", ev.State),
		zap.Int("attempt", ev.Attempt), zap.Error(ev.Err), zap.String("pod", name))
}

// arm sets the timer of e for its planned call. The lock is held, and the timer not armed.
func (w *Workers) arm(e *entry) {
	if w.mu.drive == nil || e.retryAt.IsZero() {
		return
	}
	e.armed = true
	w.pending.Add(1)
	delay := time.Until(e.retryAt)
	if e.timer == nil {
		e.timer = time.AfterFunc(delay, func() { w.wake(e) })
		return
	}
	e.timer.Reset(delay)
}

// disarm stops the timer of e. The lock is held. A timer that has already fired is harmless,
// because wake finds no due call. Run still waits for wake.
func (w *Workers) disarm(e *entry) {
	if !e.armed {
		return
	}
	e.armed = false
	if e.timer.Stop() {
		w.pending.Done()
	}
}

// wake runs in the goroutine of e's timer and does the planned call there.
func (w *Workers) wake(e *entry) {
	defer w.pending.Done()
	w.mu.Lock()
	drive := w.mu.drive
	if drive == nil || e.driven || !e.wake(time.Now()) {
		w.mu.Unlock()
		return
	}
	w.disarm(e)
	e.driven = true
	w.mu.Unlock()
	drive(e)
}
