// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
)

// Defaults of Options.
const (
	DefaultWorkers        = 10
	DefaultRequestTimeout = 10 * time.Second
	DefaultInitialBackoff = 500 * time.Millisecond
	DefaultMaxBackoff     = 10 * time.Second
	DefaultRejectedDelay  = time.Minute
	DefaultAgeing         = 2 * time.Second
	DefaultResyncInterval = time.Minute
)

// Options configure a Manager. Every func and seam must be safe for concurrent use and is called without a lock held.
type Options struct {
	// Patcher writes to the API server. If it is also a Getter, it is asked for pods of which nothing is known. Defaults
	// to none: statuses are kept and handed out, and nothing is written.
	Patcher Patcher
	// Pods is what is known of the API server's pods. It saves the requests for pods of which nothing is known, and shows
	// mirror pods; calls of Observed do the same. Defaults to none.
	Pods Pods
	// Safety tells when it is safe to say that a pod has ended, and to delete it. Defaults to asking the status: nothing
	// runs once TerminatePod was called or no container is shown running.
	Safety Safety

	// Workers is how many pods are written at a time. Defaults to DefaultWorkers.
	Workers int
	// RequestTimeout is how long a request may take. Defaults to DefaultRequestTimeout.
	RequestTimeout time.Duration
	// InitialBackoff is how long a pod waits after a request that failed; the time doubles up to MaxBackoff. A delay that
	// the server asks for is kept if it is longer. Defaults to DefaultInitialBackoff.
	InitialBackoff time.Duration
	// MaxBackoff is the longest such wait. Defaults to DefaultMaxBackoff.
	MaxBackoff time.Duration
	// RejectedDelay is how long a pod waits after the server refused a status as invalid or forbidden; a new status is
	// tried at once. Defaults to DefaultRejectedDelay.
	RejectedDelay time.Duration
	// Jitter spreads every delay; a negative result counts as 0. Defaults to adding up to half, evenly distributed.
	Jitter func(time.Duration) time.Duration
	// Ageing is how long a write may wait behind more urgent ones before it gets a share of the turns. Defaults to
	// DefaultAgeing.
	Ageing time.Duration
	// ResyncInterval is the time between passes over all pods that look for what no event told: a pod that is safe to end
	// now, a change in Pods that was not Observed, a pod that came back. Negative means never. Defaults to
	// DefaultResyncInterval.
	ResyncInterval time.Duration
	// Drain is how long Run goes on writing what is due after its context ended, the most urgent first. Defaults to 0:
	// requests in flight are cancelled.
	Drain time.Duration

	// Coalesce returns how long a change may be held back, so that the next one can join it; 0 or less: not at all, and
	// what was held back goes with it. A hold is never prolonged by later changes, and the end of a pod is never held
	// back. CoalesceInit is one. Defaults to never.
	Coalesce func(Change) time.Duration
	// OnChange is told of every status that was accepted. Calls for one pod made by different goroutines may overtake
	// each other; Change.Version has the order. Defaults to nothing.
	OnChange func(Change)
	// OnRequest is told of every request to the API server when it has ended. Defaults to nothing.
	OnRequest func(RequestEvent)
	// Logger receives failed requests. Defaults to silence.
	Logger *zap.Logger
}

// Change is a status that was accepted. It is shared: do not write to what it points to.
type Change struct {
	// Pod is the pod as it was handed in.
	Pod *v1.Pod
	// Old is the status before; nil for the first.
	Old *v1.PodStatus
	// New is the status now, as GetPodStatus returns it.
	New *v1.PodStatus
	// Version counts the statuses of the pod, from 1.
	Version uint64
}

// withDefaults returns o with defaults filled in, or an error that names the field that cannot be used.
func (o Options) withDefaults() (Options, error) {
	if o.Workers < 0 {
		return o, fmt.Errorf("statusmanager: Options.Workers is negative: %d", o.Workers)
	}
	if o.Workers == 0 {
		o.Workers = DefaultWorkers
	}
	if o.Drain < 0 {
		return o, fmt.Errorf("statusmanager: Options.Drain is negative: %s", o.Drain)
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"RequestTimeout", &o.RequestTimeout, DefaultRequestTimeout},
		{"InitialBackoff", &o.InitialBackoff, DefaultInitialBackoff},
		{"MaxBackoff", &o.MaxBackoff, DefaultMaxBackoff},
		{"RejectedDelay", &o.RejectedDelay, DefaultRejectedDelay},
		{"Ageing", &o.Ageing, DefaultAgeing},
	} {
		if *d.value < 0 {
			return o, fmt.Errorf("statusmanager: Options.%s is negative: %s", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if o.MaxBackoff < o.InitialBackoff {
		return o, fmt.Errorf("statusmanager: Options.MaxBackoff %s is below InitialBackoff %s", o.MaxBackoff, o.InitialBackoff)
	}
	if o.ResyncInterval == 0 {
		o.ResyncInterval = DefaultResyncInterval
	}
	if o.Jitter == nil {
		o.Jitter = addUpToHalf
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o, nil
}

// addUpToHalf returns a delay evenly distributed in [d, 1.5 d).
func addUpToHalf(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*float64(d)/2)
}
