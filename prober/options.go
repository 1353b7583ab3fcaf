// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"
)

// Defaults of Options. DefaultTries is the kubelet's.
const (
	DefaultConcurrency     = 256
	DefaultExecConcurrency = 16
	DefaultTries           = 3
)

// Options configure a Prober. Every func must be safe for concurrent use and is called without a lock held.
type Options struct {
	// Handler makes the attempts. Required.
	Handler Handler
	// Sink is told of results that changed. Defaults to none: ask Result.
	Sink Sink
	// Events gets the kubelet's events of probes (Unhealthy, ProbeWarning), for the first attempt with a verdict that
	// deserves one and again when such a verdict is published; not for every attempt. Defaults to none.
	Events EventRecorder
	// OnAttempt is told of every attempt that counts, in order for one probe, before its next begins. It must not
	// block. Defaults to nothing.
	OnAttempt func(Attempt)

	// Concurrency is how many attempts that are not exec may be under way at once. What is due beyond that waits its
	// turn, and is late. It costs nothing while it is not used. Defaults to DefaultConcurrency.
	Concurrency int
	// ExecConcurrency is the same for exec, where every attempt makes the runtime start a process. Defaults to
	// DefaultExecConcurrency.
	ExecConcurrency int
	// Tries is how often a Handler is asked at most, within one timeout, while all it has is an error. Defaults to
	// DefaultTries.
	Tries int
	// ErrorsAsFailureAfter makes the n-th attempt in a row without a verdict, and those after it, count as failures.
	// Defaults to 0: never, as in the kubelet.
	ErrorsAsFailureAfter int

	// Tune may change the timing of a probe, for example to less than seconds. spec is what the pod says, with the
	// API's defaults filled in. It is asked whenever the pod is added. Of what it returns, a Period or Timeout below a
	// millisecond counts as one. Defaults to the pod's.
	Tune func(pod *v1.Pod, c *v1.Container, t Type, spec Timing) Timing
	// Jitter says how long the first probe of an adopted instance is put off. The result is clamped to the period.
	// Defaults to evenly distributed in [0, period).
	Jitter func(period time.Duration) time.Duration
	// Logger receives what changed and attempts that fail with an error, never an attempt's output. Defaults to
	// silence.
	Logger *zap.Logger
}

// withDefaults returns o with defaults filled in, or an error that names the field that cannot be used.
func (o Options) withDefaults() (Options, error) {
	if o.Handler == nil {
		return o, errors.New("prober: Options.Handler is required")
	}
	for _, number := range []struct {
		name  string
		value *int
		unset int
	}{
		{"Concurrency", &o.Concurrency, DefaultConcurrency},
		{"ExecConcurrency", &o.ExecConcurrency, DefaultExecConcurrency},
		{"Tries", &o.Tries, DefaultTries},
		{"ErrorsAsFailureAfter", &o.ErrorsAsFailureAfter, 0},
	} {
		if *number.value < 0 {
			return o, fmt.Errorf("prober: Options.%s is negative: %d", number.name, *number.value)
		}
		if *number.value == 0 {
			*number.value = number.unset
		}
	}
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o, nil
}
