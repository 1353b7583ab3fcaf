// SPDX-License-Identifier: Apache-2.0

package probertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/prober"
)

// Forever, as Behaviour.Takes, makes an attempt last until its context ends.
const Forever time.Duration = -1

// Behaviour is how a container answers. The zero value succeeds at once.
type Behaviour struct {
	// Verdict is the answer. Defaults to prober.VerdictSuccess.
	Verdict prober.Verdict
	// Output is the output of the answer.
	Output string
	// Err is returned instead.
	Err error
	// Takes is how long the answer takes, or Forever. If the context ends earlier, Probe returns
	// the cause of the context.
	Takes time.Duration
}

// Pass is the behaviour of a healthy container.
func Pass() Behaviour { return Behaviour{} }

// Fail is the behaviour of an unhealthy container.
func Fail() Behaviour { return Behaviour{Verdict: prober.VerdictFailure, Output: "failure"} }

// Warn is the behaviour of a healthy container with a warning.
func Warn() Behaviour { return Behaviour{Verdict: prober.VerdictWarning, Output: "warning"} }

// Hang is the behaviour of a container that never answers.
func Hang() Behaviour { return Behaviour{Takes: Forever} }

// Break is the behaviour of a container whose probe ends with an error.
func Break(text string) Behaviour { return Behaviour{Err: errors.New(text)} }

// Call is one attempt. Ended is zero while the attempt is in progress. Interrupted is the cause of
// its context if the context ended first.
type Call struct {
	Target         prober.Target
	Started, Ended time.Time
	Interrupted    error
}

// Handler is a prober.Handler with configurable behaviour. The zero value always succeeds. Handler
// is safe for concurrent use.
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

// Set configures the given kinds of probes of a container for attempts that begin later. pod is
// "namespace/name"; an empty pod sets the default for pods without their own Set call.
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

// Calls returns every attempt so far, in start order. The slice is the caller's.
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

// pass waits for b.Takes, or until ctx ends.
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
