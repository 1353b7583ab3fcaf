// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// annotationSource is where the pod came from; "api" is an API server.
const annotationSource = "kubernetes.io/config.source"

// tally counts the containers of a pod by what they mean for its phase.
type tally struct {
	initPending, initOver     int // not complete; failed and not restarted
	sidecarPending            int
	running, waiting, unknown int
	stopped, succeeded, final int // final: stopped and not restarted
}

// phase sums up the containers. What has ended is not over while some instance of
// the pod may still run that its containers' states do not show (if the runtime has
// lost sight of it, how it ends is still to be learned), nor while all containers are
// to be restarted in place. A pod that was stopped for good, and that nobody here may
// bring back, has failed if it had not ended by then. (The kubelet's status manager
// says so to the API server, and the kubelet's own list of pods does not.)
func (g *generator) phase(status *v1.PodStatus) v1.PodPhase {
	n := g.tally(status)
	summed := g.sumUp(n)
	unseen := g.runsUnseen(status)
	switch {
	case g.Stage == StageTerminated && !isStatic(g.Pod) && !isTerminal(summed) && !unseen && n.running == 0:
		return v1.PodFailed
	case !isTerminal(summed) || n.initOver > 0 || !g.triggered && !unseen:
		return summed
	case g.initialized:
		return v1.PodRunning
	default:
		return v1.PodPending
	}
}

// sumUp is the contract's table; the first rule that applies decides.
func (g *generator) sumUp(n tally) v1.PodPhase {
	ended := n.running == 0 && n.stopped > 0 && n.unknown == 0
	over := ended && n.final == len(g.Pod.Spec.Containers)
	switch {
	case n.initOver > 0:
		return v1.PodFailed
	// Nothing of it will run again, whatever has become of the records of its init
	// containers: the planner makes no sandbox for it.
	case over && n.stopped == n.succeeded:
		return v1.PodSucceeded
	case over:
		return v1.PodFailed
	case n.initPending > 0, n.sidecarPending > 0 && !g.initialized:
		return v1.PodPending
	case n.waiting > 0:
		return v1.PodPending
	case n.running > 0 && n.unknown == 0:
		return v1.PodRunning
	case ended && g.Stage == StageTerminated && !isStatic(g.Pod):
		if n.stopped == n.succeeded {
			return v1.PodSucceeded
		}
		return v1.PodFailed
	case ended && n.final < n.stopped && g.starting:
		// Its sandbox is gone, and init comes first (#126650, #127793).
		return v1.PodPending
	case ended && n.final < n.stopped:
		return v1.PodRunning
	case ended && n.stopped == n.succeeded:
		return v1.PodSucceeded
	case ended:
		return v1.PodFailed
	default:
		return v1.PodPending
	}
}

func (g *generator) tally(status *v1.PodStatus) tally {
	var n tally
	for i := range g.Pod.Spec.InitContainers {
		c := &g.Pod.Spec.InitContainers[i]
		s := find(status.InitContainerStatuses, c.Name)
		if runtime.IsSidecar(c) {
			n.sidecar(s)
		} else {
			g.countInit(&n, c, s)
		}
	}
	for i := range g.Pod.Spec.Containers {
		c := &g.Pod.Spec.Containers[i]
		g.countRegular(&n, c, find(status.ContainerStatuses, c.Name))
	}
	return n
}

// countInit counts an init container that runs to completion.
func (g *generator) countInit(n *tally, c *v1.Container, s *v1.ContainerStatus) {
	ended := lastEnd(s)
	switch {
	case g.newestIs(c.Name, runtime.StateUnknown):
		if !g.initialized {
			n.initPending++ // it is stopped first, and how it ended then decides
		}
	case ended == nil:
		n.initPending++
	case failedInit(ended) && !g.restarts(c, ended):
		n.initOver++
	}
}

// newestIs reports whether the newest instance of a container is in that state: one
// that is unknown may still run, and one that was merely created will be started.
func (g *generator) newestIs(name string, state runtime.State) bool {
	newest := g.Observed.Latest(name)
	return newest != nil && newest.State == state
}

// runsUnseen reports whether an instance runs or may run although its container is not
// shown as running. Ephemeral containers do not count.
func (g *generator) runsUnseen(status *v1.PodStatus) bool {
	return slices.ContainsFunc(g.Observed.Running(), func(in *runtime.ContainerStatus) bool {
		ref, ok := runtime.Find(g.Pod, in.Name)
		list := status.ContainerStatuses
		switch {
		case ok && ref.Group == runtime.GroupEphemeral:
			return false
		case ok && ref.Group == runtime.GroupInit:
			list = status.InitContainerStatuses
		}
		shown := find(list, in.Name)
		return shown == nil || shown.State.Running == nil || shown.ContainerID != in.ID.String()
	})
}

// sidecar counts a sidecar. How it ended never matters.
func (n *tally) sidecar(s *v1.ContainerStatus) {
	switch {
	case s == nil:
		n.unknown++
	case s.State.Running != nil:
		n.running++
		if s.Started == nil || !*s.Started {
			n.sidecarPending++
		}
	case lastEnd(s) != nil:
	case s.State.Waiting != nil:
		n.sidecarPending++
		n.waiting++
	default:
		n.sidecarPending++
		n.unknown++
	}
}

func (g *generator) countRegular(n *tally, c *v1.Container, s *v1.ContainerStatus) {
	ended := lastEnd(s)
	switch {
	case s == nil:
		n.unknown++
	case s.State.Running != nil:
		n.running++
	case ended != nil:
		n.stopped++
		if !g.restarts(c, ended) && (s.State.Terminated != nil || !g.newestIs(c.Name, runtime.StateCreated)) {
			n.final++
		}
		if s.State.Terminated != nil && ended.ExitCode == 0 {
			n.succeeded++
		}
	case s.State.Waiting != nil:
		n.waiting++
	default:
		n.unknown++
	}
}

// lastEnd is how a container that does not run ended; nil if it runs or never
// ran.
func lastEnd(s *v1.ContainerStatus) *v1.ContainerStateTerminated {
	switch {
	case s == nil:
		return nil
	case s.State.Terminated != nil:
		return s.State.Terminated
	case s.State.Waiting != nil:
		return s.LastTerminationState.Terminated
	default:
		return nil
	}
}

// restarts reports whether a container that ended so is restarted, whether or
// not the pod is being deleted: what is stopped by a deletion did not end by
// itself. What was removed to be restarted is.
func (g *generator) restarts(c *v1.Container, ended *v1.ContainerStateTerminated) bool {
	return restarts(g.Pod, c, ended)
}

func restarts(pod *v1.Pod, c *v1.Container, ended *v1.ContainerStateTerminated) bool {
	return ended.Reason == ReasonRestartingAll || runtime.RestartsAfterExit(pod, c, ended.ExitCode, ended.Reason)
}

// Finished reports whether container name has run for good by the status of its pod:
// it is a regular one, has ended, and is not restarted after such an end. While all
// containers are restarted in place none has.
//
// It is what PlanInput.Finished asks, of containers whose records somebody removed: one
// that the status has running has ended, too, nobody knows how. (The kubelet starts them
// again.) If there is made, an instance that never ran, only an end counts that the
// status shows as the container's state: one that is behind it is to be followed.
func Finished(pod *v1.Pod, status *v1.PodStatus, name string, made *runtime.ContainerStatus) bool {
	known := find(status.ContainerStatuses, name)
	ended := lastEnd(known)
	switch {
	case known == nil:
	case made != nil:
		ended = known.State.Terminated
	case known.State.Running != nil:
		ended = lost(known.ContainerID)
	}
	ref, ok := runtime.Find(pod, name)
	return ok && ref.Group == runtime.GroupRegular && ended != nil && !restarts(pod, ref.Container(pod), ended) &&
		!isTrue(status.Conditions, v1.AllContainersRestarting)
}

// isStatic reports whether the pod comes from this node's own configuration. Its
// phase does not become terminal by being stopped: it may come back.
func isStatic(pod *v1.Pod) bool {
	source, ok := pod.Annotations[annotationSource]
	return ok && source != "api"
}
