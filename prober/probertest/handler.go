// SPDX-License-Identifier: Apache-2.0

package probertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/prober"
)

// Forever is a time that an attempt takes until its context ends.
const Forever time.Duration = -1

// Behaviour is how a container answers. The zero value answers at once that all is well.
type Behaviour struct {
	// Verdict is the answer. Defaults to prober.VerdictSuccess.
	Verdict prober.Verdict
	// Output comes with it.
	Output string
	// Err is returned instead.
	Err error
	// Takes is how long the answer takes, or Forever. If the context ends earlier, its cause is returned.
	Takes time.Duration
}

// Pass is the behaviour of a container with which all is well.
func Pass() Behaviour { return Behaviour{} }

// Fail is that of a container that answers, but not well.
func Fail() Behaviour { return Behaviour{Verdict: prober.VerdictFailure, Output: "failure"} }

// Warn is that of a container that answers well, with something to say.
func Warn() Behaviour { return Behaviour{Verdict: prober.VerdictWarning, Output: "warning"} }

// Hang is that of a container that never answers.
func Hang() Behaviour { return Behaviour{Takes: Forever} }

// Break is that of a container that cannot be asked.
func Break(text string) Behaviour { return Behaviour{Err: errors.New(text)} }

// Call is one attempt. Ended is zero while it is under way; Interrupted is the cause of its context if that ended first.
type Call struct {
	Target         prober.Target
	Started, Ended time.Time
	Interrupted    error
}

// Handler is a prober.Handler whose containers behave as they are told. The zero value answers that all is well. It is
// safe for concurrent use.
type Handler struct {
	mu struct {
		sync.Mutex
		behaviours map[subject]Behaviour
		calls      []*Call
	}
}

var _ prober.Handler = (*Handler)(nil)

// subject is a probe of a container; an empty pod means every pod's.
type subject struct {
	pod, container string
	kind           prober.Type
}

// Set tells how the probes of these kinds of a container behave, in attempts that begin from now on. pod is
// "namespace/name"; an empty one means every pod that is not told otherwise.
func (h *Handler) Set(pod, container string, kinds prober.Type, b Behaviour) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.behaviours == nil {
		h.mu.behaviours = map[subject]Behaviour{}
	}
	for _, kind := range []prober.Type{prober.Liveness, prober.Readiness, prober.Startup} {
		if kinds&kind != 0 {
			h.mu.behaviours[subject{pod, container, kind}] = b
		}
	}
}

// Calls returns every attempt so far, in the order in which they began. It is the caller's.
func (h *Handler) Calls() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := make([]Call, len(h.mu.calls))
	for i, c := range h.mu.calls {
		calls[i] = *c
	}
	return calls
}

// Probe implements prober.Handler.
func (h *Handler) Probe(ctx context.Context, t prober.Target) (prober.Outcome, error) {
	b, call := h.begin(t)
	err := b.pass(ctx)
	h.mu.Lock()
	call.Ended, call.Interrupted = time.Now(), err
	h.mu.Unlock()
	if err == nil {
		err = b.Err
	}
	if err != nil {
		return prober.Outcome{}, err
	}
	return prober.Outcome{Verdict: max(b.Verdict, prober.VerdictSuccess), Output: b.Output}, nil
}

func (h *Handler) begin(t prober.Target) (Behaviour, *Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	call := &Call{Target: t, Started: time.Now()}
	h.mu.calls = append(h.mu.calls, call)
	who := subject{t.Pod.Namespace + "/" + t.Pod.Name, t.Container.Name, t.Type}
	b, told := h.mu.behaviours[who]
	if !told {
		who.pod = ""
		b = h.mu.behaviours[who]
	}
	return b, call
}

// pass lets the time go by that the behaviour takes.
func (b Behaviour) pass(ctx context.Context) error {
	var over <-chan time.Time
	switch {
	case b.Takes == 0:
		return nil
	case b.Takes > 0:
		timer := time.NewTimer(b.Takes)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
