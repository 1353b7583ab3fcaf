// SPDX-License-Identifier: Apache-2.0

package prober

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/dirty"
)

// Observe is AddPod for a caller with a status. It probes the containers running according to
// status. Containers that started before New was called are adopted with the values of pod.Status,
// the last known status. Observe writes to neither argument.
func (p *Prober) Observe(pod *v1.Pod, status *v1.PodStatus) {
	p.AddPod(pod, Running(pod, status, p.began))
}

// Alive reports whether the liveness probe considers the container instance alive. known is false
// without a result: the instance is not known to run, has no such probe, or has no established
// result yet.
func (p *Prober) Alive(id string) (ok, known bool) { return p.verdict(id, Liveness) }

// Started reports whether the startup probe of a container instance has succeeded; known is as in
// Alive.
func (p *Prober) Started(id string) (ok, known bool) { return p.verdict(id, Startup) }

// Ready reports whether the established result of the readiness probe of a container instance is
// Success; known is as in Alive.
func (p *Prober) Ready(id string) (ok, known bool) { return p.verdict(id, Readiness) }

func (p *Prober) verdict(id string, kind Type) (ok, known bool) {
	r, _ := p.Result(id, kind)
	return r == Success, r == Success || r == Failure
}

// Dirty receives a value when Take has something to return. Dirty is for one receiver, and receives
// nothing if Options.Sink is set.
func (p *Prober) Dirty() <-chan struct{} { return p.changed.Signal() }

// Take returns the pods with changed results since the last call, in order of the first change. The
// slice is the caller's.
func (p *Prober) Take() []types.UID { return p.changed.Take() }

// dirtySink notes the pods of updates for Take.
type dirtySink struct{ *dirty.Set }

// ProbeResult implements Sink.
func (s dirtySink) ProbeResult(u Update) { s.Mark(u.PodUID) }
