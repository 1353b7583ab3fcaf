// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Reasons of the conditions made here, with the kubelet's words (1.36).
const (
	ReasonUnknownContainerStatuses = "UnknownContainerStatuses"
	ReasonContainersNotReady       = "ContainersNotReady"
	ReasonContainersNotInitialized = "ContainersNotInitialized"
	ReasonReadinessGatesNotReady   = "ReadinessGatesNotReady"
	ReasonPodCompleted             = "PodCompleted"
	ReasonPodFailed                = "PodFailed"
)

// Owned reports whether the conditions of type t are the node agent's alone. DisruptionTarget is shared with others;
// every other type belongs to them.
func Owned(t v1.PodConditionType) bool {
	switch t {
	case v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady, v1.PodReadyToStartContainers,
		v1.AllContainersRestarting, v1.PodResizePending, v1.PodResizeInProgress:
		return true
	}
	return false
}

// shared reports whether the agent writes conditions of type t beside others.
func shared(t v1.PodConditionType) bool { return t == v1.DisruptionTarget }

// ContainersReadyCondition says whether every sidecar and regular container of the pod is ready. It has no times.
func ContainersReadyCondition(spec *v1.PodSpec, status *v1.PodStatus) v1.PodCondition {
	if status.ContainerStatuses == nil {
		return no(v1.ContainersReady, ReasonUnknownContainerStatuses, "")
	}
	var unknown, unready []string
	check := func(name string, list []v1.ContainerStatus) {
		switch s := containerStatus(list, name); {
		case s == nil:
			unknown = append(unknown, name)
		case !s.Ready:
			unready = append(unready, name)
		}
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; isSidecar(c) {
			check(c.Name, status.InitContainerStatuses)
		}
	}
	for i := range spec.Containers {
		check(spec.Containers[i].Name, status.ContainerStatuses)
	}
	message := listed("unknown status", unknown, "unready status", unready)
	switch {
	case status.Phase == v1.PodSucceeded && len(unknown) == 0:
		return no(v1.ContainersReady, ReasonPodCompleted, "")
	case status.Phase == v1.PodFailed:
		return no(v1.ContainersReady, ReasonPodFailed, "")
	case message != "":
		return no(v1.ContainersReady, ReasonContainersNotReady, message)
	}
	return v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionTrue}
}

// PodReadyCondition adds to the ContainersReady condition the pod's readiness gates, which are conditions of others,
// looked up in conditions. It has no times.
func PodReadyCondition(spec *v1.PodSpec, containersReady v1.PodCondition, conditions []v1.PodCondition) v1.PodCondition {
	if containersReady.Status != v1.ConditionTrue {
		return no(v1.PodReady, containersReady.Reason, containersReady.Message)
	}
	var closed []string
	for _, gate := range spec.ReadinessGates {
		switch c := condition(conditions, gate.ConditionType); {
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

// InitializedCondition says whether the init containers of the pod are done. It has no times.
func InitializedCondition(spec *v1.PodSpec, status *v1.PodStatus) v1.PodCondition {
	yes := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if status.InitContainerStatuses == nil && len(spec.InitContainers) > 0 {
		return no(v1.PodInitialized, ReasonUnknownContainerStatuses, "")
	}
	var unknown, incomplete []string
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		switch s := containerStatus(status.InitContainerStatuses, c.Name); {
		case s == nil:
			unknown = append(unknown, c.Name)
		case isSidecar(c) && !isStarted(s), !isSidecar(c) && !s.Ready:
			incomplete = append(incomplete, c.Name)
		}
	}
	if status.Phase == v1.PodSucceeded && len(unknown) == 0 {
		yes.Reason = ReasonPodCompleted
		return yes
	}
	message := listed("unknown status", unknown, "incomplete status", incomplete)
	if message == "" || anyStarted(status.ContainerStatuses) {
		return yes
	}
	return no(v1.PodInitialized, ReasonContainersNotInitialized, message)
}

// completeConditions adds to status the conditions that every pod has, where whoever made the status left them out.
// gates are where readiness gates are looked up.
func completeConditions(pod *v1.Pod, status *v1.PodStatus, gates []v1.PodCondition) {
	if condition(status.Conditions, v1.PodScheduled) == nil {
		setCondition(status, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, ObservedGeneration: pod.Generation})
	}
	if condition(status.Conditions, v1.PodInitialized) == nil {
		c := InitializedCondition(&pod.Spec, status)
		c.ObservedGeneration = pod.Generation
		setCondition(status, c)
	}
	if condition(status.Conditions, v1.ContainersReady) == nil || condition(status.Conditions, v1.PodReady) == nil {
		setReadiness(pod, status, gates)
		return
	}
	applyGates(pod, status, gates)
}

// setReadiness makes ContainersReady and Ready anew from the container statuses.
func setReadiness(pod *v1.Pod, status *v1.PodStatus, gates []v1.PodCondition) {
	containers := ContainersReadyCondition(&pod.Spec, status)
	ready := PodReadyCondition(&pod.Spec, containers, gates)
	for _, c := range []v1.PodCondition{ready, containers} {
		c.ObservedGeneration = pod.Generation
		setCondition(status, c)
	}
}

// applyGates makes Ready anew from ContainersReady and the pod's readiness gates, if it has any.
func applyGates(pod *v1.Pod, status *v1.PodStatus, gates []v1.PodCondition) {
	containers := condition(status.Conditions, v1.ContainersReady)
	if len(pod.Spec.ReadinessGates) == 0 || containers == nil {
		return
	}
	ready := PodReadyCondition(&pod.Spec, *containers, gates)
	ready.ObservedGeneration = containers.ObservedGeneration
	setCondition(status, ready)
}

// endReadiness takes Ready and ContainersReady back from a pod that has ended (#108594).
func endReadiness(status *v1.PodStatus) {
	if !isTerminal(status.Phase) {
		return
	}
	reason := ReasonPodCompleted
	if status.Phase == v1.PodFailed {
		reason = ReasonPodFailed
	}
	for _, t := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
		if old := condition(status.Conditions, t); old != nil && old.Status == v1.ConditionTrue {
			c := no(t, reason, "")
			c.ObservedGeneration = old.ObservedGeneration
			setCondition(status, c)
		}
	}
}

// setCondition replaces the condition of c's type where it stands, or appends c. It writes to the slice of status. The
// times of a condition whose status stays are kept.
func setCondition(status *v1.PodStatus, c v1.PodCondition) {
	old := condition(status.Conditions, c.Type)
	if old == nil {
		status.Conditions = append(status.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	c.LastProbeTime = old.LastProbeTime
	*old = c
}

func condition(list []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

// conditionStatus is the status of a condition; one that is missing is False.
func conditionStatus(list []v1.PodCondition, t v1.PodConditionType) v1.ConditionStatus {
	if c := condition(list, t); c != nil {
		return c.Status
	}
	return v1.ConditionFalse
}

func no(t v1.PodConditionType, reason, message string) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: v1.ConditionFalse, Reason: reason, Message: message}
}

// listed is "containers with X: [a b], containers with Y: [c]", less what is empty.
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
