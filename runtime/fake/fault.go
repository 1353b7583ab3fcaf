// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/internal/faults"
	"github.com/keelson-dev/keelson/runtime"
)

// ErrReplyLost is the error of a call that took effect but lost its reply, unless the fault sets
// Err.
var ErrReplyLost = faults.ErrReplyLost

// Fault makes the matching calls fail, hang, take longer or return a wrong status. If several
// faults match a call, the fault injected first applies. The call first waits for Latency. Then the
// call fails with Err or hangs, unless DoneButReplyLost is set.
type Fault struct {
	// On selects the calls. For a Lie, the pod in On selects the pods with a wrong status, and On.Op
	// is the call that returns the wrong status. An empty On.Op stands for both List and PodStatus.
	On Target
	// Match, if set, must also return true for a call. Match is called with no lock held.
	Match func(Call) bool

	// Nth is the number of the first affected call, counting matching calls from 1. Without Times it
	// is the only affected call. Defaults to the first matching call.
	Nth int
	// Times is the number of affected calls. Defaults to 1 if Nth is set, otherwise to all.
	Times int
	// For is the duration of the fault. 0: until Clear.
	For time.Duration

	Err     error
	Latency time.Duration
	// HangUntilCtx: the call has no effect, waits for the end of its ctx and returns the error of ctx.
	// A Watch yields nothing until ctx ends or Clear is called, like a stream without a server.
	HangUntilCtx bool
	// DoneButReplyLost: the call takes effect and fails afterwards with Err, with ErrReplyLost, or
	// by hanging.
	DoneButReplyLost bool
	// Lie makes List and PodStatus return a wrong status without an error.
	Lie Lie
}

// Injected is an active fault.
type Injected struct {
	w     *World
	f     Fault
	stale []*runtime.PodStatus // the statuses of a Stale lie
	gone  chan struct{}        // closed by Clear

	// Guarded by World.mu.
	strikes faults.Strikes
	cleared bool
}

// Inject activates a fault. A fault without any effect or with a negative number is an error.
func (w *World) Inject(f Fault) (*Injected, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	in := &Injected{w: w, f: f, gone: make(chan struct{}), strikes: faults.Strikes{Nth: f.Nth, Times: f.Times}}
	if f.For > 0 {
		in.strikes.Until = time.Now().Add(f.For)
	}
	if f.Lie == Stale {
		in.stale = slices.DeleteFunc(w.fullStatuses(), func(st *runtime.PodStatus) bool { return !in.selects(st) })
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

// Clear deactivates the fault. Calls that the fault holds keep hanging, except for a Watch.
func (in *Injected) Clear() {
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	if !in.cleared {
		close(in.gone)
	}
	in.cleared = true
	in.w.mu.faults = slices.DeleteFunc(in.w.mu.faults, func(other *Injected) bool { return other == in })
}

// Hits returns the number of affected calls so far.
func (in *Injected) Hits() int {
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	return in.strikes.Hits()
}

// strike returns the fault that applies to the call, or nil. The faults are checked without a
// lock, because Match is the caller's function.
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
		if call.Op == OpList { // On selects pods, and List is about all pods
			on.UID, on.Pod = "", ""
		}
		on.Container, on.Image = "", ""
	}
	return on.matches(call) && (in.f.Match == nil || in.f.Match(call))
}

// due counts a matching call and reports whether the fault applies to the call.
func (in *Injected) due() bool {
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	return !in.cleared && in.strikes.Due(time.Now())
}
