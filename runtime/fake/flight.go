// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"time"

	"github.com/keelson-dev/keelson/internal/retry"
)

// flight is a call under way.
type flight struct {
	entry *Entry // guarded by World.mu; nil: the journal keeps no entries
	fault *Injected
}

// do executes a call: the journal entry, the latency, a fault if any, and act. act is called with
// no lock held and may wait.
func (r *Runtime) do(ctx context.Context, call Call, id, detail string, act func(*flight) error) error {
	f := r.begin(call, id, detail)
	err := ctx.Err()
	if err == nil && r.opts.Latency != nil {
		err = retry.Sleep(ctx, r.opts.Latency(call))
	}
	if err == nil {
		var goOn bool
		if goOn, err = f.fault.before(ctx, call.Op); goOn {
			err = act(&f)
			r.note(f.entry, err)
			err = f.fault.after(ctx, err)
		}
	}
	r.end(f.entry, err)
	return err
}

func (w *World) begin(call Call, id, detail string) flight {
	var f flight
	w.mu.Lock()
	if w.mu.journal.count(call.Op) {
		f.entry = &Entry{Call: call, ID: id, Detail: detail, UnderWay: true, At: time.Since(w.born)}
		w.mu.journal.add(f.entry)
	}
	w.mu.Unlock()
	f.fault = w.strike(call)
	return f
}

// made records the ID of a new object. World.mu is held.
func (f *flight) made(id string) {
	if f.entry != nil {
		f.entry.ID = id
	}
}

// note records whether the call took effect, even if the caller never gets the reply.
func (w *World) note(e *Entry, err error) {
	if e == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Done = err == nil
	e.DoneAt = time.Since(w.born)
}

func (w *World) end(e *Entry, err error) {
	if e == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.UnderWay = false
	e.Took = time.Since(w.born) - e.At
	e.Err = err
}

// before applies the fault before the call. If goOn is false, the call returns err without effect.
func (in *Injected) before(ctx context.Context, op Op) (goOn bool, err error) {
	if in == nil {
		return true, nil
	}
	if err := retry.Sleep(ctx, in.f.Latency); err != nil {
		return false, err
	}
	switch {
	case in.f.DoneButReplyLost:
		return true, nil
	case in.f.HangUntilCtx && op == OpWatch:
		select {
		case <-in.gone:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	case in.f.HangUntilCtx:
		<-ctx.Done()
		return false, ctx.Err()
	default:
		return in.f.Err == nil, in.f.Err
	}
}

// after applies the fault to the result of the call.
func (in *Injected) after(ctx context.Context, err error) error {
	switch {
	case in == nil || !in.f.DoneButReplyLost:
		return err
	case in.f.HangUntilCtx:
		<-ctx.Done()
		return ctx.Err()
	case in.f.Err != nil:
		return in.f.Err
	default:
		return ErrReplyLost
	}
}
