// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// Stage is the progress of the pod's worker.
type Stage uint8

// The stages, one for each of the three calls of a pod worker.
const (
	StageSync        Stage = iota // containers are started and restarted as the spec requires
	StageTerminating              // containers are being stopped and no container starts
	StageTerminated               // no container runs or will run
)

// Override makes a pod Failed regardless of its containers, for example after an eviction or at the
// active deadline.
type Override struct {
	Reason  string // one CamelCase word, such as "DeadlineExceeded"
	Message string
	// At is the time of the event. If the containers decided the phase before At, the pod keeps
	// that phase. Defaults to the zero time: the pod becomes Failed.
	At time.Time
}

// Input is the input of Generate. Generate writes to no part of Input.
type Input struct {
	// Pod has the spec, the deletion timestamp and, in Status, the last status of the API server:
	// foreign conditions, the start time, a terminal phase. Required.
	Pod *v1.Pod
	// Observed is the report of the runtime; nil = the runtime has no record of the pod.
	Observed *runtime.PodStatus
	// Previous is the last result of Generate for the same UID. Defaults to Pod.Status.
	Previous *v1.PodStatus
	// Now becomes the transition time of changed conditions. Required.
	Now time.Time

	// Stage is the progress of the pod's worker. Defaults to StageSync.
	Stage Stage
	// Override fails the pod, unless the pod has finished before.
	Override *Override
	// Restarting names the containers that a sync in progress is about to start again. The exit of
	// such a container is not shown, because an API server does not forget a reported exit. For a
	// second after the exit the container stays ready, so that the result depends on Now. Defaults
	// to none.
	Restarting []string
	// StartFailures are the reasons of recent start failures, by container name.
	StartFailures runtime.StartFailures
	// ResizePending is the reason why a requested resize has not begun. Pod then has the allocated
	// resources, not the requested resources. Defaults to none.
	ResizePending *ResizePending
	// Resizing is the progress of a resize that has begun. Defaults to none.
	Resizing runtime.Resizing
	// Actuated returns the resources last applied to a running instance, as runtime.Manager does.
	// Defaults to the resources in Pod.
	Actuated func(runtime.ContainerID) (v1.ResourceRequirements, bool)
	// Started and Ready are called for running instances of containers with a startup or readiness
	// probe. Defaults to true.
	Started, Ready func(runtime.ContainerID) bool
	// Devices returns the devices of a regular container with their health. The caller of Devices owns
	// the result. Defaults to nil: the status lists no devices.
	Devices func(container string) []v1.ResourceStatus
	// HostIPs are the node's addresses, primary first. Defaults to the addresses of the previous
	// status.
	HostIPs []string
}

// Generate computes a pod's API status. Generate is pure: the same input gives the same status. The
// caller owns the status, which shares no memory with the input except the resource lists of
// container statuses: they may be lists of the pod's spec, and must not be written. A call with its own
// result as Previous returns an equal result for any Now.
//
// Generate follows the kubelet 1.36 and later changes on the upstream main branch.
func Generate(in Input) v1.PodStatus {
	if in.Pod == nil {
		return v1.PodStatus{}
	}
	g := newGenerator(in)
	kept := in.Pod.Status // for fields that Generate does not own, such as resource claims
	kept.InitContainerStatuses, kept.ContainerStatuses, kept.EphemeralContainerStatuses, kept.Conditions = nil, nil, nil, nil
	out := *kept.DeepCopy()
	out.InitContainerStatuses = g.containerStatuses(runtime.GroupInit)
	out.ContainerStatuses = g.containerStatuses(runtime.GroupRegular)
	out.EphemeralContainerStatuses = g.containerStatuses(runtime.GroupEphemeral)
	g.setPhase(&out)
	g.setIPs(&out)
	out.StartTime = g.startTime()
	out.QOSClass = g.qosClass()
	out.ObservedGeneration = in.Pod.Generation
	out.Conditions = g.conditions(&out)
	holdBack(out.ContainerStatuses, g.previous.ContainerStatuses, in.Restarting)
	return out
}

// generator is the state of a Generate call.
type generator struct {
	Input
	previous *v1.PodStatus

	// initialized: init is complete in the current sandbox, because a regular container was created
	// in the sandbox or the pod has no init containers.
	initialized bool
	// starting: init containers run or are to run, because regular containers are due.
	starting bool
	// triggered: all containers are to be restarted in place. resetting: the restart in place goes
	// on, or has just removed all containers.
	triggered, resetting bool
}

func newGenerator(in Input) *generator {
	g := &generator{Input: in, previous: in.Previous}
	if g.previous == nil {
		g.previous = &in.Pod.Status
	}
	g.Observed = holdReadiness(in.Observed, g.previous, in.Restarting, in.Now)
	spec := &in.Pod.Spec
	made := false
	for i := range spec.Containers {
		c := &spec.Containers[i]
		made = made || g.Observed.Active(c.Name) != nil
	}
	g.initialized = made || len(spec.InitContainers) == 0
	g.triggered = g.mayStart() && runtime.RestartAllTriggered(in.Pod, g.Observed)
	g.resetting = g.triggered || g.mayStart() && !made && podfacts.IsTrue(g.previous.Conditions, v1.AllContainersRestarting)
	g.starting = !g.initialized && g.mayStart() && g.due()
	return g
}

// due reports whether a regular container is to be started or restarted.
func (g *generator) due() bool {
	for i := range g.Pod.Spec.Containers {
		p, _ := g.place(runtime.Ref{Group: runtime.GroupRegular, Index: i})
		if p.newest != nil && runtime.ShouldRestart(g.Pod, p.spec, p.newest) && !g.finishedBefore(p) {
			return true
		}
		if p.newest == nil {
			status := g.withoutRecord(p)
			if ended := lastEnd(&status); ended == nil || restarts(g.Pod, p.spec, ended) {
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

// setPhase sets the phase, the reason and the message. A terminal phase never changes, and a reason
// is kept as long as the phase does not change.
func (g *generator) setPhase(out *v1.PodStatus) {
	api, reason, message := &g.Pod.Status, "", ""
	switch computed := g.phase(out); {
	case podfacts.IsTerminal(api.Phase): // out is a copy
	case podfacts.IsTerminal(g.previous.Phase):
		out.Phase = g.previous.Phase
	case g.Override != nil && !(podfacts.IsTerminal(computed) && endedBefore(out, g.Override.At)):
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

// endedBefore reports whether every regular container of a pod ended before at. If no regular
// container has run, the init containers are checked instead. Nothing ended before the zero time.
func endedBefore(status *v1.PodStatus, at time.Time) bool {
	if at.IsZero() {
		return false
	}
	list := status.ContainerStatuses
	if !slices.ContainsFunc(list, func(c v1.ContainerStatus) bool { return c.State.Terminated != nil }) {
		list = status.InitContainerStatuses
	}
	return !slices.ContainsFunc(list, func(c v1.ContainerStatus) bool {
		return c.State.Terminated != nil && !c.State.Terminated.FinishedAt.Time.Before(at)
	})
}

func (g *generator) startTime() *metav1.Time {
	for _, at := range []*metav1.Time{g.previous.StartTime, g.Pod.Status.StartTime} {
		if !at.IsZero() {
			return at.DeepCopy()
		}
	}
	return &metav1.Time{Time: g.Now}
}
