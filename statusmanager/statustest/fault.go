// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"errors"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/internal/faults"
	"github.com/keelson-dev/keelson/statusmanager"
)

// ErrReplyLost is the error of a request that was carried out but whose reply was lost.
var ErrReplyLost = faults.ErrReplyLost

// Fault describes a failure and the requests to strike. At most one fault strikes a request: the
// first injected fault that applies. The request takes Latency longer, then fails with Err or
// hangs, unless DoneButReplyLost is set.
type Fault struct {
	// Request is the kind of request to strike. Defaults to all.
	Request statusmanager.Request
	// Pod is the name of the pod to strike. Defaults to all.
	Pod string

	// Nth selects a single request, counting matching requests from 1. 0: every request.
	Nth int
	// Times is the maximum number of struck requests, from the first or the Nth on. 0: one if Nth
	// is set, else all.
	Times int
	// For is the duration of the fault. 0: until Clear.
	For time.Duration

	// Err is the error of the request, such as an API status of apimachinery's errors package.
	Err error
	// Latency is added to the latency of the server.
	Latency time.Duration
	// HangUntilCtx: the request waits until ctx ends and returns the error of ctx.
	HangUntilCtx bool
	// DoneButReplyLost: the request is carried out, and fails afterwards, with ErrReplyLost beside
	// Err.
	DoneButReplyLost bool
}

// Injected is a fault in place.
type Injected struct {
	server *Server
	fault  Fault

	// Guarded by Server.mu.
	strikes faults.Strikes
}

// Inject puts a fault in place. A fault without effect, or a negative number, is an error.
func (s *Server) Inject(f Fault) (*Injected, error) {
	switch {
	case f.Nth < 0 || f.Times < 0 || f.For < 0 || f.Latency < 0:
		return nil, errors.New("statustest: Fault.Nth, Times, For and Latency must not be negative")
	case f.Err == nil && f.Latency == 0 && !f.HangUntilCtx && !f.DoneButReplyLost:
		return nil, errors.New("statustest: Fault has no effect: set Err, Latency, HangUntilCtx or DoneButReplyLost")
	}
	in := &Injected{server: s, fault: f, strikes: faults.Strikes{Nth: f.Nth, Times: f.Times}}
	if f.For > 0 {
		in.strikes.Until = time.Now().Add(f.For)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults = append(s.mu.faults, in)
	return in, nil
}

// Clear takes the fault away. Struck requests are not released.
func (in *Injected) Clear() {
	in.server.mu.Lock()
	defer in.server.mu.Unlock()
	in.server.mu.faults = slices.DeleteFunc(in.server.mu.faults, func(other *Injected) bool { return other == in })
}

// Hits is the number of requests struck so far.
func (in *Injected) Hits() int {
	in.server.mu.Lock()
	defer in.server.mu.Unlock()
	return in.strikes.Hits()
}

// strike returns the fault for a request, or nil.
func (s *Server) strike(kind statusmanager.Request, ref statusmanager.PodRef) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.mu.faults {
		f := &in.fault
		if f.Request != statusmanager.RequestNone && f.Request != kind || f.Pod != "" && f.Pod != ref.Name {
			continue
		}
		if in.strikes.Due(time.Now()) {
			return f
		}
	}
	return nil
}
