// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/restartrule"
	"github.com/keelson-dev/keelson/runtime"
)

// tally counts the containers of a pod by their effect on the phase.
type tally struct {
	initPending, initOver     int // never complete; failed and not restarted
	initLeft                  int // not complete now, although an earlier instance may have been
	sidecarPending            int // running, not started
	running, waiting          int
	stopped, succeeded, final int // final: stopped and not restarted
}

// phase returns the pod's phase. A terminal phase is withheld while an instance runs or may run,
// for example because the runtime has lost the instance. A terminal phase is also withheld while
// all containers are to be restarted in place. A terminated pod that is not static has failed if
// the pod had not finished by itself. (The kubelet's status manager sends Failed to the API server
// for such a pod; the kubelet's own list of pods does not have Failed.)
func (g *generator) phase(status *v1.PodStatus) v1.PodPhase {
	n := g.tally(status)
	summed := g.sumUp(n)
	switch mayRun := g.mayRun(); {
	case g.Stage == StageTerminated && !podfacts.IsStatic(g.Pod) && !podfacts.IsTerminal(summed) && !mayRun:
		return v1.PodFailed
	case !podfacts.IsTerminal(summed) || n.initOver > 0 || !g.triggered && !mayRun:
		return summed
	case g.initialized:
		return v1.PodRunning
	default:
		return v1.PodPending
	}
}

// sumUp is the table of phases. The first rule that applies decides.
func (g *generator) sumUp(n tally) v1.PodPhase {
	over := n.stopped > 0 && n.final == len(g.Pod.Spec.Containers)
	switch {
	case n.initOver > 0:
		return v1.PodFailed
	// No container will run again, whether or not the init containers have records: the planner
	// creates no sandbox for the pod.
	case over && n.stopped == n.succeeded:
		return v1.PodSucceeded
	case over:
		return v1.PodFailed
	case n.initPending > 0, n.sidecarPending > 0 && !g.initialized:
		return v1.PodPending
	case n.waiting > 0:
		return v1.PodPending
	case n.running > 0:
		return v1.PodRunning
	case n.stopped == 0: // a pod without containers
		return v1.PodPending
	case g.Stage == StageTerminated && !podfacts.IsStatic(g.Pod) && n.stopped == n.succeeded:
		return v1.PodSucceeded
	case g.starting && n.initLeft > 0:
		// The sandbox is gone, or all containers restart, and init runs first (#126650, #127793).
		return v1.PodPending
	default: // a container restarts, else the pod would be over
		return v1.PodRunning
	}
}

// tally counts the containers of status, which has each container of the spec.
func (g *generator) tally(status *v1.PodStatus) tally {
	var n tally
	for i := range g.Pod.Spec.InitContainers {
		c := &g.Pod.Spec.InitContainers[i]
		s := podfacts.ContainerStatus(status.InitContainerStatuses, c.Name)
		if podfacts.IsSidecar(c) {
			n.sidecar(s)
		} else {
			g.countInit(&n, c, s)
		}
		if !g.initComplete(i, c, s) {
			n.initLeft++
		}
	}
	for i := range g.Pod.Spec.Containers {
		c := &g.Pod.Spec.Containers[i]
		g.countRegular(&n, c, podfacts.ContainerStatus(status.ContainerStatuses, c.Name))
	}
	return n
}

// countInit counts an init container that runs to completion.
func (g *generator) countInit(n *tally, c *v1.Container, s *v1.ContainerStatus) {
	ended := lastEnd(s)
	switch {
	case g.newestIs(c.Name, runtime.StateUnknown):
		if !g.initialized {
			n.initPending++ // the container is stopped first; its exit then decides
		}
	case ended == nil:
		n.initPending++
	case failedInit(ended) && !restarts(g.Pod, c, ended):
		n.initOver++
	}
}

// newestIs reports whether the newest instance of a container is in the given state. An instance in
// StateUnknown may still run. An instance in StateCreated will be started.
func (g *generator) newestIs(name string, state runtime.State) bool {
	newest := g.Observed.Latest(name)
	return newest != nil && newest.State == state
}

// mayRun reports whether an instance runs or may run. Ephemeral containers do not count.
func (g *generator) mayRun() bool {
	return slices.ContainsFunc(g.Observed.Running(), func(in *runtime.ContainerStatus) bool {
		ref, _ := runtime.Find(g.Pod, in.Name)
		return ref.Group != runtime.GroupEphemeral
	})
}

// sidecar counts a sidecar. The exit code of a sidecar has no effect.
func (n *tally) sidecar(s *v1.ContainerStatus) {
	switch {
	case s.State.Running != nil:
		n.running++
		if !*s.Started {
			n.sidecarPending++
		}
	case lastEnd(s) == nil:
		n.waiting++
	}
}

func (g *generator) countRegular(n *tally, c *v1.Container, s *v1.ContainerStatus) {
	ended := lastEnd(s)
	switch {
	case s.State.Running != nil:
		n.running++
	case ended != nil:
		n.stopped++
		if !restarts(g.Pod, c, ended) && (s.State.Terminated != nil || !g.newestIs(c.Name, runtime.StateCreated)) {
			n.final++
		}
		if s.State.Terminated != nil && ended.ExitCode == 0 {
			n.succeeded++
		}
	default:
		n.waiting++
	}
}

// lastEnd returns the termination of a container that is not running, nil if the container runs or
// never ran.
func lastEnd(s *v1.ContainerStatus) *v1.ContainerStateTerminated {
	switch {
	case s.State.Terminated != nil:
		return s.State.Terminated
	case s.State.Waiting != nil:
		return s.LastTerminationState.Terminated
	default:
		return nil
	}
}

func restarts(pod *v1.Pod, c *v1.Container, ended *v1.ContainerStateTerminated) bool {
	return ended.Reason == ReasonRestartingAll || restartrule.AfterExit(&pod.Spec, c, ended.ExitCode, ended.Reason)
}
