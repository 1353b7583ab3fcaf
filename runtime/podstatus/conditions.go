// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Reasons of conditions, with the kubelet's words. PodReadyToStartContainers
// has those of runtime.SandboxCheck.
const (
	ReasonUnknownContainerStatuses = "UnknownContainerStatuses"
	ReasonContainersNotReady       = "ContainersNotReady"
	ReasonContainersNotInitialized = "ContainersNotInitialized"
	ReasonReadinessGatesNotReady   = "ReadinessGatesNotReady"
	ReasonPodCompleted             = "PodCompleted"
	ReasonPodFailed                = "PodFailed"
	ReasonRestartAllStarted        = "RestartAllContainersStarted"
)

// owned are the conditions that Generate decides, in the order it lists them.
var owned = []v1.PodConditionType{
	v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled,
	v1.AllContainersRestarting, v1.PodResizePending, v1.PodResizeInProgress,
}

// conditions returns those of others first, as the API server has them, then our
// own. DisruptionTarget is shared: the previous status may be ahead of the API.
func (g *generator) conditions(status *v1.PodStatus) []v1.PodCondition {
	var out []v1.PodCondition
	for _, c := range g.Pod.Status.Conditions {
		if !slices.Contains(owned, c.Type) {
			out = append(out, c)
		}
	}
	if d := condition(g.previous.Conditions, v1.DisruptionTarget); d != nil {
		out = slices.DeleteFunc(out, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget })
		out = append(out, *d)
	}
	ready := g.containersReady(status)
	own := []v1.PodCondition{g.readyToStart(), g.initializedCondition(status), podReady(g.Pod, out, ready), ready,
		{Type: v1.PodScheduled, Status: v1.ConditionTrue}}
	if restarting, ok := g.allRestarting(status.Phase); ok {
		own = append(own, restarting)
	}
	own = append(own, g.resizeConditions(status.Phase)...)
	for i := range own {
		c := &own[i]
		if c.Type != v1.AllContainersRestarting {
			c.ObservedGeneration = g.Pod.Generation
		}
		c.LastTransitionTime = g.transition(c)
	}
	return append(out, own...)
}

// transition is when c took its status: kept as long as that does not change.
func (g *generator) transition(c *v1.PodCondition) metav1.Time {
	for _, list := range [][]v1.PodCondition{g.previous.Conditions, g.Pod.Status.Conditions} {
		if before := condition(list, c.Type); before != nil {
			if before.Status == c.Status {
				return before.LastTransitionTime
			}
			break
		}
		if isResize(c.Type) {
			break
		}
	}
	return metav1.NewTime(g.Now)
}

func condition(list []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

func isTrue(list []v1.PodCondition, t v1.PodConditionType) bool {
	c := condition(list, t)
	return c != nil && c.Status == v1.ConditionTrue
}

// readyToStart says whether the pod has its sandbox.
func (g *generator) readyToStart() v1.PodCondition {
	sandbox := runtime.CheckSandbox(g.Pod, g.Observed)
	if sandbox.Changed {
		return no(v1.PodReadyToStartContainers, sandbox.Reason, sandbox.Message)
	}
	return v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue}
}

// containersReady says whether all sidecars and regular containers are ready.
func (g *generator) containersReady(status *v1.PodStatus) v1.PodCondition {
	if status.ContainerStatuses == nil {
		return no(v1.ContainersReady, ReasonUnknownContainerStatuses, "")
	}
	var unknown, unready []string
	check := func(c *v1.Container, s *v1.ContainerStatus) {
		switch {
		case s == nil:
			unknown = append(unknown, c.Name)
		case !s.Ready:
			unready = append(unready, c.Name)
		}
	}
	for i := range g.Pod.Spec.InitContainers {
		if c := &g.Pod.Spec.InitContainers[i]; runtime.IsSidecar(c) {
			check(c, find(status.InitContainerStatuses, c.Name))
		}
	}
	for i := range g.Pod.Spec.Containers {
		c := &g.Pod.Spec.Containers[i]
		check(c, find(status.ContainerStatuses, c.Name))
	}
	switch message := listed("unknown status", unknown, "unready status", unready); {
	case status.Phase == v1.PodSucceeded && len(unknown) == 0:
		return no(v1.ContainersReady, ReasonPodCompleted, "")
	case status.Phase == v1.PodFailed:
		return no(v1.ContainersReady, ReasonPodFailed, "")
	case message != "":
		return no(v1.ContainersReady, ReasonContainersNotReady, message)
	}
	return v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionTrue}
}

// podReady adds the pod's readiness gates, which are conditions of others.
func podReady(pod *v1.Pod, others []v1.PodCondition, containers v1.PodCondition) v1.PodCondition {
	if containers.Status != v1.ConditionTrue {
		containers.Type = v1.PodReady
		return containers
	}
	var closed []string
	for _, gate := range pod.Spec.ReadinessGates {
		switch c := condition(others, gate.ConditionType); {
		case c == nil:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != v1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	if len(closed) > 0 {
		return no(v1.PodReady, ReasonReadinessGatesNotReady, strings.Join(closed, ", "))
	}
	return v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue}
}

// initializedCondition says whether init is complete. A regular container that
// has run proves it, unless init starts over in a new sandbox. A restart of all
// containers in place does not take it back.
func (g *generator) initializedCondition(status *v1.PodStatus) v1.PodCondition {
	yes := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if status.InitContainerStatuses == nil && len(g.Pod.Spec.InitContainers) > 0 {
		return no(v1.PodInitialized, ReasonUnknownContainerStatuses, "")
	}
	var unknown, incomplete []string
	for i := range g.Pod.Spec.InitContainers {
		c := &g.Pod.Spec.InitContainers[i]
		switch s := find(status.InitContainerStatuses, c.Name); {
		case s == nil:
			unknown = append(unknown, c.Name)
		case !g.initComplete(i, c, s):
			incomplete = append(incomplete, c.Name)
		}
	}
	if status.Phase == v1.PodSucceeded && len(unknown) == 0 {
		yes.Reason = ReasonPodCompleted
		return yes
	}
	message := listed("unknown status", unknown, "incomplete status", incomplete)
	switch {
	case message == "", !g.starting && ranRegular(status):
		return yes
	case g.restartingAll(status) && isTrue(g.previous.Conditions, v1.PodInitialized):
		return yes
	}
	return no(v1.PodInitialized, ReasonContainersNotInitialized, message)
}

func (g *generator) initComplete(i int, c *v1.Container, s *v1.ContainerStatus) bool {
	switch {
	case runtime.IsSidecar(c):
		return s.Started != nil && *s.Started
	case g.starting && !g.initPast(i): // only the current sandbox counts
		active := g.Observed.Active(c.Name)
		return s.Ready && active != nil
	default:
		return s.Ready
	}
}

// ranRegular reports whether a regular container runs or has run.
func ranRegular(status *v1.PodStatus) bool {
	return slices.ContainsFunc(status.ContainerStatuses, func(s v1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil
	})
}

// restartingAll also covers the time from the last removal until the regular
// containers run again.
func (g *generator) restartingAll(status *v1.PodStatus) bool {
	wasRemoved := func(s v1.ContainerStatus) bool {
		last := s.LastTerminationState.Terminated
		return s.State.Terminated == nil && last != nil && last.Reason == ReasonRestartingAll
	}
	return g.triggered || slices.ContainsFunc(status.InitContainerStatuses, wasRemoved) ||
		slices.ContainsFunc(status.ContainerStatuses, wasRemoved)
}

// allRestarting is there only for pods with a rule that can bring it about.
func (g *generator) allRestarting(phase v1.PodPhase) (v1.PodCondition, bool) {
	spec := &g.Pod.Spec
	possible := false
	for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			possible = possible || runtime.HasRestartAllRule(&list[i])
		}
	}
	const t = v1.AllContainersRestarting
	switch {
	case !possible:
		return v1.PodCondition{}, false
	case phase == v1.PodSucceeded:
		return no(t, ReasonPodCompleted, ""), true
	case phase == v1.PodFailed:
		return no(t, ReasonPodFailed, ""), true
	case g.triggered:
		return v1.PodCondition{Type: t, Status: v1.ConditionTrue, Reason: ReasonRestartAllStarted,
			Message: "container exited with restart policy rule"}, true
	default:
		return no(t, "", ""), true
	}
}

func no(t v1.PodConditionType, reason, message string) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: v1.ConditionFalse, Reason: reason, Message: message}
}

// listed is "containers with X: [a b], containers with Y: [c]", less what is
// empty.
func listed(first string, a []string, second string, b []string) string {
	var parts []string
	if len(a) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s: %v", first, a))
	}
	if len(b) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s: %v", second, b))
	}
	return strings.Join(parts, ", ")
}
