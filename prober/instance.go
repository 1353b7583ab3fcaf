// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Stage is where a probe of one container instance stands.
type Stage uint8

// The stages. StageGated waits for the startup probe. From StageOver (the probe has established what it is for) and
// StageStopped (the caller stopped it) there is no way back; the result stays.
const (
	StageGated Stage = iota
	StageWaiting
	StageQueued
	StageRunning
	StageOver
	StageStopped
)

// String returns the stage in one word.
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

// ended reports whether there is no way on.
func (s Stage) ended() bool { return s == StageOver || s == StageStopped }

// podRecord is a pod of which something runs.
type podRecord struct {
	object    *v1.Pod // as last added; never written
	instances []*instance
	stopped   Type // what no instance of the pod may have any more
}

// instance is a running container. Its probes are made with it and end with it.
type instance struct {
	Instance
	pod       *podRecord
	container *v1.Container // in pod.object
	previous  string        // the ID of the instance before it
	probes    [slots]*probe // by slot; nil if the container has no such probe
	stopped   Type
}

// probe is one probe of one instance with one config. A changed config makes a new probe.
type probe struct {
	instance *instance
	config   config
	tally    tally
	kind     Type
	stage    Stage
	told     Result // what the sink knows, or need not be told
	news     bool   // in registry.news
	index    int32  // in the agenda; notListed if it is not there
	rank     uint32 // settles ties
	due      time.Time
	cancel   context.CancelCauseFunc // of the attempt in flight
}

// find returns the pod's instance of a container, and its position.
func (r *podRecord) find(container string) (int, *instance) {
	for i, in := range r.instances {
		if in.container.Name == container {
			return i, in
		}
	}
	return -1, nil
}

// open reports whether the other probes may act: there is no startup probe, or it has succeeded.
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
