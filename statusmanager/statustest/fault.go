// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"errors"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/statusmanager"
)

// ErrReplyLost is what a request returns that was carried out but whose reply got lost.
var ErrReplyLost = errors.New("the connection broke before the reply came")

// Fault is what goes wrong with which requests. A request is struck by at most one fault, the first injected of those
// that apply: it takes Latency longer, then fails with Err or hangs, unless DoneButReplyLost.
type Fault struct {
	// Request it strikes. Defaults to all.
	Request statusmanager.Request
	// Pod is the name of the pod it strikes. Defaults to all.
	Pod string

	// Nth is the only request it strikes, counting those it applies to from 1. 0: every one.
	Nth int
	// Times is how many requests it strikes in all, from the first or the Nth on. 0: one if Nth is given, else all.
	Times int
	// For is how long it lasts. 0: until it is cleared.
	For time.Duration

	// Err is what comes back, such as an API status of apimachinery's errors package.
	Err error
	// Latency is added to that of the server.
	Latency time.Duration
	// HangUntilCtx: nothing happens until ctx ends, whose error comes back.
	HangUntilCtx bool
	// DoneButReplyLost: the request is carried out, and fails afterwards, with ErrReplyLost beside Err.
	DoneButReplyLost bool
}

// Injected is a fault in place.
type Injected struct {
	server *Server
	fault  Fault
	until  time.Time // zero: for ever

	// Guarded by Server.mu.
	applied, hits int
}

// Inject puts a fault in place. It is an error if it could never do anything, or a number is negative.
func (s *Server) Inject(f Fault) (*Injected, error) {
	switch {
	case f.Nth < 0 || f.Times < 0 || f.For < 0 || f.Latency < 0:
		return nil, errors.New("statustest: Fault.Nth, Times, For and Latency must not be negative")
	case f.Err == nil && f.Latency == 0 && !f.HangUntilCtx && !f.DoneButReplyLost:
		return nil, errors.New("statustest: Fault has no effect: set Err, Latency, HangUntilCtx or DoneButReplyLost")
	}
	in := &Injected{server: s, fault: f}
	if f.For > 0 {
		in.until = time.Now().Add(f.For)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults = append(s.mu.faults, in)
	return in, nil
}

// Clear takes the fault away. Requests it has struck are not released.
func (in *Injected) Clear() {
	in.server.mu.Lock()
	defer in.server.mu.Unlock()
	in.server.mu.faults = slices.DeleteFunc(in.server.mu.faults, func(other *Injected) bool { return other == in })
}

// Hits is how many requests it has struck so far.
func (in *Injected) Hits() int {
	in.server.mu.Lock()
	defer in.server.mu.Unlock()
	return in.hits
}

// strike finds the fault that a request meets; nil: none.
func (s *Server) strike(kind statusmanager.Request, ref statusmanager.PodRef) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.mu.faults {
		f := &in.fault
		if f.Request != statusmanager.RequestNone && f.Request != kind || f.Pod != "" && f.Pod != ref.Name {
			continue
		}
		if in.due() {
			return f
		}
	}
	return nil
}

// due counts a request that the fault applies to and says whether it is struck. Server.mu is held.
func (in *Injected) due() bool {
	if !in.until.IsZero() && !time.Now().Before(in.until) {
		return false
	}
	in.applied++
	first, times := max(in.fault.Nth, 1), in.fault.Times
	if times == 0 && in.fault.Nth > 0 {
		times = 1
	}
	if in.applied < first || times > 0 && in.applied >= first+times {
		return false
	}
	in.hits++
	return true
}
