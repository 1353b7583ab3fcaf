// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/internal/podfacts"
)

// planInit plans the init containers and reports whether all have completed in the pod's current
// sandbox. Only instances of the current sandbox count: instances of an earlier sandbox, for
// example before a reboot, prove nothing (#137710, #136969, #126650).
//
// planInit walks in the order of the spec. After a sidecar that is not up, planInit sets held.
func (p *planner) planInit() (initialized bool) {
	furthest := p.furthestInit()
	for i := range p.pod.Spec.InitContainers {
		c, ref := &p.pod.Spec.InitContainers[i], Ref{GroupInit, i}
		st := p.status.Active(c.Name)
		switch {
		case i > furthest:
			cause := causeFirst
			if i > 0 {
				cause += ", after " + p.pod.Spec.InitContainers[i-1].Name
			}
			p.start(ref, cause)
			return false
		case podfacts.IsSidecar(c):
			up := p.sidecar(ref, c, st)
			p.held = p.held || !up
		case i == furthest:
			if !p.plainInit(ref, c, st) {
				return false
			}
		}
	}
	return true
}

// furthestInit returns the progress of init in the current sandbox: the index of the last init
// container with an instance, or -1 without instances. If a regular container has an instance, init
// was complete, and the result is the number of init containers.
func (p *planner) furthestInit() int {
	for i := range p.pod.Spec.Containers {
		if p.status.Active(p.pod.Spec.Containers[i].Name) != nil {
			return len(p.pod.Spec.InitContainers)
		}
	}
	for i := len(p.pod.Spec.InitContainers) - 1; i >= 0; i-- {
		if p.status.Active(p.pod.Spec.InitContainers[i].Name) != nil {
			return i
		}
	}
	return -1
}

// plainInit plans the furthest init container with an instance, if the container runs to
// completion, and reports whether it has completed.
func (p *planner) plainInit(ref Ref, c *v1.Container, st *ContainerStatus) (completed bool) {
	switch {
	case st.State == StateRunning:
		p.fit(ref, c, st)
	case st.State == StateCreated:
		p.start(ref, causeNeverRan)
	case st.State == StateExited && !st.Failed():
		return true
	case st.State == StateUnknown && !ShouldRestart(p.pod, c, st):
		// The exit decides. (The kubelet fails the pod, although a record may show later that the
		// init container has completed.)
		p.kill(st, killUnknownState, causeUnknown)
	case !ShouldRestart(p.pod, c, st):
		p.killPod(fmt.Sprintf("init container %s failed and is not restarted", c.Name))
	case st.State == StateExited:
		p.start(ref, startCause(st))
	default:
		p.restart(ref, st, killUnknownState, causeUnknown)
	}
	return false
}

// sidecar restarts a sidecar after every exit and under every policy of the pod. The result up is
// true if the sidecar runs, has passed its startup probe, and is not replaced.
func (p *planner) sidecar(ref Ref, c *v1.Container, st *ContainerStatus) (up bool) {
	switch {
	case st == nil:
		p.start(ref, "its record was lost")
	case st.State == StateRunning:
		return p.runningSidecar(ref, c, st)
	case st.State == StateUnknown:
		p.restart(ref, st, killUnknownState, causeUnknown)
	default:
		p.start(ref, startCause(st))
	}
	return false
}

// runningSidecar replaces a running sidecar after a failed probe or a change of its spec. Without a
// result of the startup probe the sidecar is not up. Without a result of the liveness probe it is
// up.
func (p *planner) runningSidecar(ref Ref, c *v1.Container, st *ContainerStatus) (up bool) {
	started, failed := p.startup(c, st.ID)
	switch {
	case failed:
		p.restart(ref, st, killStartupProbe, causeStartup)
	case !started:
	case st.Hash != containermeta.Hash(c):
		p.restart(ref, st, killSpecChanged, causeSpecChanged)
	case p.isDead(c, st.ID):
		p.restart(ref, st, killLivenessProbe, causeLiveness)
	default:
		return p.fit(ref, c, st)
	}
	return false
}

// heldAt reports whether a sidecar ahead of ref is not up. in was observed after the start of ref
// was planned.
func heldAt(in PlanInput, ref Ref) bool {
	p := planner{pod: in.Pod, probes: in.Probes}
	for _, c := range sidecarsAhead(in.Pod, ref) {
		st := in.Status.Active(c.Name)
		if st == nil || st.State != StateRunning {
			return true
		}
		if started, _ := p.startup(c, st.ID); !started {
			return true
		}
	}
	return false
}

// sidecarsAhead returns the sidecars that must be up before ref starts. The pointers point into
// pod.
func sidecarsAhead(pod *v1.Pod, ref Ref) (ahead []*v1.Container) {
	for i := range pod.Spec.InitContainers {
		if ref.Group == GroupEphemeral || ref.Group == GroupInit && i >= ref.Index {
			break
		}
		if c := &pod.Spec.InitContainers[i]; podfacts.IsSidecar(c) {
			ahead = append(ahead, c)
		}
	}
	return ahead
}
