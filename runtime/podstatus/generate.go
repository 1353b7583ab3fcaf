// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Stage is how far the pod's worker has come with it.
type Stage uint8

// The stages, one for each of the three calls of a pod worker.
const (
	StageSync        Stage = iota // containers are kept as the spec wants them
	StageTerminating              // they are being stopped and nothing starts any more
	StageTerminated               // nothing runs, and nothing ever will again
)

// Override makes a pod Failed whatever its containers do: it was evicted, say,
// or ran out of its active deadline.
type Override struct {
	Reason  string // one CamelCase word, such as "DeadlineExceeded"
	Message string
}

// Input is everything Generate looks at. It writes to none of it.
type Input struct {
	// Pod has the spec, the deletion and, in Status, what the API server last
	// said: conditions of others, the start time, a terminal phase. Required.
	Pod *v1.Pod
	// Observed is what the runtime reports; nil = nothing was ever made.
	Observed *runtime.PodStatus
	// Previous is what Generate last returned for this pod, of the same UID.
	// Defaults to Pod.Status.
	Previous *v1.PodStatus
	// Now is the time of transitions. Required.
	Now time.Time

	// Stage is where the pod is in its life. Defaults to StageSync.
	Stage Stage
	// Override fails the pod, unless it has ended by itself before.
	Override *Override
	// StartFailures are why containers could not be started lately, by name.
	StartFailures runtime.StartFailures
	// ResizePending is why a resize that was asked for is not begun. Pod then has
	// the resources that the node allocated, not those that are asked for.
	// Defaults to none.
	ResizePending *ResizePending
	// Resizing is how far a resize has come that was begun. Defaults to none.
	Resizing runtime.Resizing
	// Actuated tells what a running instance was last given; runtime.Manager has
	// it. Defaults to what Pod says.
	Actuated func(runtime.ContainerID) (v1.ResourceRequirements, bool)
	// Started and Ready are asked about running instances of containers that
	// have a startup or readiness probe. Defaults to true.
	Started, Ready func(runtime.ContainerID) bool
	// HostIPs are the node's addresses, primary first. Defaults to what the
	// previous status says.
	HostIPs []string
}

// Generate computes a pod's API status. It is pure: the same input gives the
// same status, which is the caller's and shares nothing with the input. With its
// own result as Previous it gives that result again, whatever Now is.
//
// It follows the kubelet 1.36 and what was merged since.
func Generate(in Input) v1.PodStatus {
	if in.Pod == nil {
		return v1.PodStatus{}
	}
	g := newGenerator(in)
	out := *in.Pod.Status.DeepCopy() // keeps what is not ours, such as resource claims

	out.InitContainerStatuses = g.containerStatuses(runtime.GroupInit)
	out.ContainerStatuses = g.containerStatuses(runtime.GroupRegular)
	out.EphemeralContainerStatuses = g.containerStatuses(runtime.GroupEphemeral)
	g.setPhase(&out)
	g.setIPs(&out)
	out.StartTime = g.startTime()
	out.QOSClass = g.qosClass()
	out.ObservedGeneration = in.Pod.Generation
	out.Conditions = g.conditions(&out)
	return out
}

// generator carries one Generate call.
type generator struct {
	Input
	previous *v1.PodStatus

	// initialized: init is complete in the current sandbox. The proof is that a
	// regular container was made in it.
	initialized bool
	// starting: init runs, or is to run, because regular containers are due.
	starting bool
	// triggered: all containers are to be restarted in place.
	// resetting: that goes on, or has just come to the point where all are gone.
	triggered, resetting bool
}

func newGenerator(in Input) *generator {
	g := &generator{Input: in, previous: in.Previous}
	if g.previous == nil {
		g.previous = &in.Pod.Status
	}
	spec := &in.Pod.Spec
	made := false
	for i := range spec.Containers {
		c := &spec.Containers[i]
		made = made || in.Observed.Active(c.Name) != nil
	}
	g.initialized = made || len(spec.InitContainers) == 0
	g.triggered = g.mayStart() && runtime.RestartAllTriggered(in.Pod, in.Observed)
	g.resetting = g.triggered || g.mayStart() && !made && isTrue(g.previous.Conditions, v1.AllContainersRestarting)
	g.starting = !g.initialized && g.mayStart() && g.due()
	return g
}

// due reports whether some regular container is to be started (again).
func (g *generator) due() bool {
	for i := range g.Pod.Spec.Containers {
		p, _ := g.place(runtime.Ref{Group: runtime.GroupRegular, Index: i})
		if p.newest != nil && runtime.ShouldRestart(g.Pod, p.spec, p.newest) && !g.overBefore(p) {
			return true
		}
		if p.newest == nil {
			status := g.withoutRecord(p)
			if ended := lastEnd(&status); ended == nil || g.restarts(p.spec, ended) {
				return true
			}
		}
	}
	return false
}

// mayStart reports whether containers are started at this stage.
func (g *generator) mayStart() bool {
	return g.Stage == StageSync && g.Pod.DeletionTimestamp == nil
}

// setPhase computes the phase and lets what was decided before stand: a terminal
// phase never changes, and a reason stays as long as its phase does.
func (g *generator) setPhase(out *v1.PodStatus) {
	api, reason, message := &g.Pod.Status, "", ""
	switch computed := g.phase(out); {
	case isTerminal(api.Phase):
		out.Phase = api.Phase
	case isTerminal(g.previous.Phase):
		out.Phase = g.previous.Phase
	case g.Override != nil:
		out.Phase, reason, message = v1.PodFailed, g.Override.Reason, g.Override.Message
	default:
		out.Phase = computed
	}
	for _, before := range []*v1.PodStatus{g.previous, api} {
		if reason == "" && message == "" && before.Phase == out.Phase {
			reason, message = before.Reason, before.Message
		}
	}
	out.Reason, out.Message = reason, message
}

func isTerminal(p v1.PodPhase) bool { return p == v1.PodSucceeded || p == v1.PodFailed }

func (g *generator) startTime() *metav1.Time {
	for _, at := range []*metav1.Time{g.previous.StartTime, g.Pod.Status.StartTime} {
		if !at.IsZero() {
			return at.DeepCopy()
		}
	}
	return &metav1.Time{Time: g.Now}
}
