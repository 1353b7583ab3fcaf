// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Stage is the stage of a probe of one container instance.
type Stage uint8

// The stages. StageGated waits for the startup probe. StageOver (the final result is established)
// and StageStopped (the caller stopped the probe) are final; the result stays.
const (
	StageGated Stage = iota
	StageWaiting
	StageQueued
	StageRunning
	StageOver
	StageStopped
)

// String returns the stage as a lower-case word.
func (s Stage) String() string {
	switch s {
	case StageGated:
		return "gated"
	case StageWaiting:
		return "waiting"
	case StageQueued:
		return "queued"
	case StageRunning:
		return "running"
	case StageOver:
		return "over"
	default:
		return "stopped"
	}
}

// podRecord is a pod with running containers.
type podRecord struct {
	object    *v1.Pod // as last added; never written
	instances []*instance
	pasts     map[string]*past // by container; nil until a container has had a second instance
	stopped   Type             // the kinds stopped for all present and future instances of the pod
}

// instance is a running container. Its probes are created and end with the instance.
type instance struct {
	Instance
	pod       *podRecord
	container *v1.Container // in pod.object
	probes    [slots]*probe // by slot; nil if the container has no such probe
	stopped   Type
}

// probe is one probe of one instance with one config. A changed config makes a new probe, unless
// the probe is stopped or has its final result.
type probe struct {
	instance *instance
	config   config
	tally    tally
	kind     Type
	stage    Stage
	told     Result // the result last passed to the sink, or the initial result
	lined    uint8  // bit set of the lines containing the probe
	slow     bool   // the last attempt was slow, so the next begins without a place
	index    int32  // in the agenda, or notListed
	rank     uint32 // settles ties
	// due is when the next attempt is due, or when the attempt in progress becomes overdue.
	due    time.Time
	flight *attempt      // under way, in StageRunning
	next   [lines]*probe // the next probe, by line
}

// find returns the running instance of a container, or nil.
func (r *podRecord) find(container string) *instance {
	for _, in := range r.instances {
		if in.container.Name == container {
			return in
		}
	}
	return nil
}

// open reports whether readiness and liveness probes may run: the container has no startup probe,
// or its startup probe has succeeded.
func (in *instance) open() bool {
	startup := in.probes[slotStartup]
	return startup == nil || startup.tally.published == Success
}

func (p *probe) target() Target {
	return Target{
		Pod: p.instance.pod.object, Container: p.instance.container, Probe: p.config.spec,
		Type: p.kind, Instance: p.instance.Instance,
	}
}

func (p *probe) update() Update {
	pod := p.instance.pod.object
	u := Update{
		PodUID: pod.UID, Container: p.instance.container.Name, ID: p.instance.ID,
		Type: p.kind, Result: p.tally.published,
	}
	u.Pod.Namespace, u.Pod.Name = pod.Namespace, pod.Name
	if p.kind != Readiness && p.tally.published == Failure && p.config.spec.TerminationGracePeriodSeconds != nil {
		grace := *p.config.spec.TerminationGracePeriodSeconds
		u.TerminationGracePeriodSeconds = &grace
	}
	return u
}
