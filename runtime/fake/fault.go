// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// ErrReplyLost is what a call returns that was done but whose reply got lost,
// unless the fault has an error of its own.
var ErrReplyLost = errors.New("the connection broke before the reply came")

// Fault is what goes wrong with which calls. A call is struck by at most one
// fault, the first injected of those that apply. In this order: the call takes
// Latency longer; then it fails with Err or hangs, unless DoneButReplyLost.
type Fault struct {
	// On picks the calls. For a Lie, it picks the pods that are lied about by
	// the calls On.Op (if empty: both List and PodStatus).
	On Target
	// Match, if set, must also agree. It is called with no lock held.
	Match func(Call) bool

	// Nth is the only call it strikes, counting those it applies to from 1.
	// 0: every one.
	Nth int
	// Times is how many calls it strikes in all, from the first or the Nth on.
	// 0: one if Nth is given, else all.
	Times int
	// For is how long it lasts. 0: until it is cleared.
	For time.Duration

	Err     error
	Latency time.Duration
	// HangUntilCtx: the call does nothing until its ctx ends, whose error it
	// returns. A Watch says nothing until then, or until the fault is cleared, as a
	// stream does that nobody answers for a while.
	HangUntilCtx bool
	// DoneButReplyLost: the call is done, and fails afterwards: with Err, with
	// ErrReplyLost, or by hanging.
	DoneButReplyLost bool
	// Lie, for List and PodStatus, which then succeed.
	Lie Lie
}

// Injected is a fault in place.
type Injected struct {
	w     *World
	f     Fault
	until time.Time            // zero: for ever
	stale []*runtime.PodStatus // what a Stale lie goes on to say
	gone  chan struct{}        // closed by Clear

	// Guarded by World.mu.
	applied, hits int
	cleared       bool
}

// Inject puts a fault in place. It is an error if the fault could never do
// anything, or a number is negative.
func (w *World) Inject(f Fault) (*Injected, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	in := &Injected{w: w, f: f, gone: make(chan struct{})}
	if f.For > 0 {
		in.until = time.Now().Add(f.For)
	}
	if f.Lie == Stale {
		in.stale = slices.DeleteFunc(w.fullStatuses(), func(st *runtime.PodStatus) bool { return !in.about(st) })
	}
	w.mu.faults = append(w.mu.faults, in)
	return in, nil
}

func (f *Fault) validate() error {
	switch {
	case f.On.Op != "" && !slices.Contains(calls(), f.On.Op):
		return fmt.Errorf("fake: Fault.On.Op %q is no call", f.On.Op)
	case f.Nth < 0 || f.Times < 0:
		return errors.New("fake: Fault.Nth and Fault.Times must not be negative")
	case f.For < 0 || f.Latency < 0:
		return errors.New("fake: Fault.For and Fault.Latency must not be negative")
	case f.Lie > DuplicateSandbox:
		return fmt.Errorf("fake: Fault.Lie %d is none of the lies", f.Lie)
	case f.Lie != 0 && f.On.Op != "" && f.On.Op != OpList && f.On.Op != OpPodStatus:
		return fmt.Errorf("fake: Fault.Lie is for List and PodStatus, not %s", f.On.Op)
	case f.Lie != 0 && (f.Err != nil || f.HangUntilCtx || f.DoneButReplyLost):
		return errors.New("fake: a Fault with a Lie succeeds, so it has neither Err nor HangUntilCtx nor DoneButReplyLost")
	case f.Lie == 0 && f.Err == nil && f.Latency == 0 && !f.HangUntilCtx && !f.DoneButReplyLost:
		return errors.New("fake: Fault has no effect: set Err, Latency, HangUntilCtx, DoneButReplyLost or Lie")
	}
	return nil
}

// Clear takes the fault away. Calls it has struck are not released, but for a Watch
// that hangs.
func (in *Injected) Clear() {
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	if !in.cleared {
		close(in.gone)
	}
	in.cleared = true
	in.w.mu.faults = slices.DeleteFunc(in.w.mu.faults, func(other *Injected) bool { return other == in })
}

// Hits is how many calls it has struck so far.
func (in *Injected) Hits() int {
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	return in.hits
}

// strike finds the fault that this call meets; nil: none. Faults are asked one
// by one, without a lock, because Match is the caller's.
func (w *World) strike(call Call) *Injected {
	w.mu.Lock()
	faults := slices.Clone(w.mu.faults) // nearly always empty
	w.mu.Unlock()
	for _, in := range faults {
		if in.applies(call) && in.due() {
			return in
		}
	}
	return nil
}

func (in *Injected) applies(call Call) bool {
	on := in.f.On
	if in.f.Lie != 0 {
		if call.Op != OpList && call.Op != OpPodStatus {
			return false
		}
		if call.Op == OpList { // the target picks pods, and List is about all
			on.UID, on.Pod = "", ""
		}
		on.Container, on.Image = "", ""
	}
	return on.matches(call) && (in.f.Match == nil || in.f.Match(call))
}

// due counts a call the fault applies to and says whether it is to be struck.
func (in *Injected) due() bool {
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	if in.cleared || !in.until.IsZero() && !time.Now().Before(in.until) {
		return false
	}
	in.applied++
	first, times := max(in.f.Nth, 1), in.f.Times
	if times == 0 && in.f.Nth > 0 {
		times = 1
	}
	if in.applied < first || times > 0 && in.applied >= first+times {
		return false
	}
	in.hits++
	return true
}
