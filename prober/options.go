// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"
)

const (
	// concurrency is the maximum number of concurrent attempts other than exec, not counting
	// attempts much slower than usual. Further due attempts wait and are late. Unused places cost
	// nothing.
	concurrency = 64
	// execConcurrency is the same for exec, where every attempt makes the runtime start a process.
	execConcurrency = 32
	// maxTries is the maximum number of Handler calls within one timeout, as long as the Handler
	// returns errors. It is the kubelet's.
	maxTries = 3
)

// Options configure a Prober. Every func must be safe for concurrent use and is called without a
// lock held.
type Options struct {
	// Handler makes the attempts. Required.
	Handler Handler
	// Sink receives changed results. Defaults to nil: the caller uses Dirty and Take.
	Sink Sink
	// Events receives the kubelet's probe events (Unhealthy, ProbeWarning): for the first of
	// consecutive attempts with a failure, warning or error, and again when a failure is published.
	// Defaults to no events.
	Events EventRecorder
	// OnAttempt is called for every counted attempt. Calls for one probe are in order, and precede
	// its next attempt. OnAttempt must not block. Defaults to nothing.
	OnAttempt func(Attempt)

	// ErrorsAsFailureAfter makes the n-th consecutive attempt without a verdict, and later ones,
	// count as failures. Defaults to 0: never, as in the kubelet.
	ErrorsAsFailureAfter int

	// Tune may change the timing of a probe, for example to periods below a second. spec is the
	// timing in the pod spec, with the API's defaults filled in. Tune is called in every Start and
	// AddPod call. A returned Period or Timeout below a millisecond counts as one millisecond.
	// Defaults to the pod's timing.
	Tune func(pod *v1.Pod, c *v1.Container, t Type, spec Timing) Timing
	// Jitter returns the delay of the first attempt on an adopted instance whose initial delay has
	// passed. The result is clamped to [0, period]. Defaults to evenly distributed in [0, period).
	Jitter func(period time.Duration) time.Duration
	// Logger receives changed results and attempts with errors, never an attempt's output. Defaults
	// to silence.
	Logger *zap.Logger
}

// withDefaults returns o with defaults filled in, or an error that names the invalid field.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Handler == nil:
		return Options{}, errors.New("prober: Options.Handler is required")
	case o.ErrorsAsFailureAfter < 0:
		return Options{}, fmt.Errorf("prober: Options.ErrorsAsFailureAfter is negative: %d", o.ErrorsAsFailureAfter)
	}
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return o, nil
}
