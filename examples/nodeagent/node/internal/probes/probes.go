// SPDX-License-Identifier: Apache-2.0

// Package probes runs liveness, startup and readiness probes with package prober.
package probes

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/handlers"
	"github.com/keelson-dev/keelson/runtime"
)

// Options configure Probes.
type Options struct {
	// Handler runs probe attempts. Defaults to the probes of the Kubernetes API (package
	// prober/handlers), with the runtime's Exec.
	Handler prober.Handler
	// Random returns a number in [0, 1), which spreads first attempts over the probe period.
	// Required.
	Random func() float64
	// Recall returns the pod with container statuses from before the agent began. Defaults to the
	// unchanged pod.
	Recall func(pod *v1.Pod) *v1.Pod
	// Statuses receives readiness and startup results at once. Defaults to nil.
	Statuses Statuses
	// Attempted is called after every attempt. Defaults to nil.
	Attempted func(prober.Attempt)
}

// Statuses publishes readiness. *statuses.Statuses implements it.
type Statuses interface {
	SetContainerReadiness(pod types.UID, containerID string, ready bool) (changed bool, err error)
	SetContainerStartup(pod types.UID, containerID string, started bool) (changed bool, err error)
}

// Probes implements podsync.Probes with a prober.
type Probes struct {
	*prober.Prober
	recall func(pod *v1.Pod) *v1.Pod
}

// New returns the Probes of a host's pods.
func New(h *feature.Host, o Options) (*Probes, error) {
	if o.Handler == nil {
		var runner handlers.Runner
		if _, ok := h.Runtime.(runtime.Execer); ok {
			runner = runtime.ExecRunner{Runtime: h.Runtime}
		}
		opts := handlers.Options{Runner: runner}
		if d, ok := h.Runtime.(runtime.PodDialer); ok {
			opts.DialPod = d.DialPod
		}
		handler, err := handlers.New(opts)
		if err != nil {
			return nil, err
		}
		o.Handler = handler
	}
	if o.Recall == nil {
		o.Recall = func(pod *v1.Pod) *v1.Pod { return pod }
	}
	p, err := prober.New(prober.Options{
		Handler: o.Handler,
		Jitter:  func(period time.Duration) time.Duration { return time.Duration(o.Random() * float64(period)) },
		Events:  h.Events,
		Logger:  h.Log,

		OnAttempt: o.Attempted,
		Sink: prober.SinkFunc(func(u prober.Update) {
			// Readiness and startup are published at once, because traffic depends on readiness.
			// Liveness takes effect in the next sync. Setting the result of a dead container
			// instance has no effect.
			switch {
			case o.Statuses == nil:
			case u.Type == prober.Readiness:
				_, _ = o.Statuses.SetContainerReadiness(u.PodUID, u.ID, u.Result == prober.Success)
			case u.Type == prober.Startup:
				_, _ = o.Statuses.SetContainerStartup(u.PodUID, u.ID, u.Result == prober.Success)
			}
			h.Sync.Recheck(u.PodUID)
		}),
	})
	return &Probes{Prober: p, recall: o.Recall}, err
}

// Feature returns the functions that Probes adds to the node, besides podsync.Probes.
func (p *Probes) Feature() feature.Feature {
	return feature.Feature{Name: "probes", Housekeep: p.CleanupPods, Run: p.Run}
}

// Observe implements podsync.Probes. A container of a static pod starts with the readiness known to
// the earlier agent.
func (p *Probes) Observe(pod *v1.Pod, status *v1.PodStatus) {
	p.Prober.Observe(p.recall(pod), status)
}
