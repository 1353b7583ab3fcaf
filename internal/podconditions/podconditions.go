// SPDX-License-Identifier: Apache-2.0

// Package podconditions computes the pod conditions derived from container statuses. The package is shared by
// runtime/podstatus, which computes whole statuses, and statusmanager, which completes statuses. The results have no
// times and no observed generation. The package follows the kubelet (1.36).
package podconditions

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Reasons of the conditions, with the kubelet's words.
const (
	ReasonUnknownContainerStatuses = "UnknownContainerStatuses"
	ReasonContainersNotReady       = "ContainersNotReady"
	ReasonContainersNotInitialized = "ContainersNotInitialized"
	ReasonReadinessGatesNotReady   = "ReadinessGatesNotReady"
	ReasonPodCompleted             = "PodCompleted"
	ReasonPodFailed                = "PodFailed"
	// ReasonRestartingAll is the reason of the last termination of a container removed for an in-place restart of all
	// containers.
	ReasonRestartingAll = "RestartingAllContainers"
)

// ContainersReady says whether every sidecar and regular container of the pod is ready.
func ContainersReady(spec *v1.PodSpec, status *v1.PodStatus) v1.PodCondition {
	if status.ContainerStatuses == nil {
		return False(v1.ContainersReady, ReasonUnknownContainerStatuses, "")
	}
	var unknown, unready []string
	check := func(name string, list []v1.ContainerStatus) {
		switch s := podfacts.ContainerStatus(list, name); {
		case s == nil:
			unknown = append(unknown, name)
		case !s.Ready:
			unready = append(unready, name)
		}
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; podfacts.IsSidecar(c) {
			check(c.Name, status.InitContainerStatuses)
		}
	}
	for i := range spec.Containers {
		check(spec.Containers[i].Name, status.ContainerStatuses)
	}
	switch {
	case status.Phase == v1.PodSucceeded && len(unknown) == 0:
		return False(v1.ContainersReady, ReasonPodCompleted, "")
	case status.Phase == v1.PodFailed:
		return False(v1.ContainersReady, ReasonPodFailed, "")
	}
	if message := listed("unknown status", unknown, "unready status", unready); message != "" {
		return False(v1.ContainersReady, ReasonContainersNotReady, message)
	}
	return v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionTrue}
}

// PodReady combines the ContainersReady condition with the pod's readiness gates. Other writers set the gates;
// conditions holds their conditions.
func PodReady(spec *v1.PodSpec, containersReady v1.PodCondition, conditions []v1.PodCondition) v1.PodCondition {
	if containersReady.Status != v1.ConditionTrue {
		return False(v1.PodReady, containersReady.Reason, containersReady.Message)
	}
	var closed []string
	for _, gate := range spec.ReadinessGates {
		i := slices.IndexFunc(conditions, func(c v1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case i < 0:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case conditions[i].Status != v1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, conditions[i].Status))
		}
	}
	if len(closed) > 0 {
		return False(v1.PodReady, ReasonReadinessGatesNotReady, strings.Join(closed, ", "))
	}
	return v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue}
}

// Init holds the arguments of Initialized.
type Init struct {
	Spec   *v1.PodSpec
	Status *v1.PodStatus
	// Complete reports whether the init container with index i in the spec is done or, as a sidecar, has started.
	Complete func(i int, s *v1.ContainerStatus) bool
	// Proven: a regular container has started, so init is complete, whatever the statuses of the init containers.
	Proven bool
	// Stays: init was complete, and an in-place restart of all containers does not revert the condition.
	Stays bool
}

// Initialized says whether the init containers of a pod are done.
func Initialized(in Init) v1.PodCondition {
	yes := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if in.Status.InitContainerStatuses == nil && len(in.Spec.InitContainers) > 0 {
		return False(v1.PodInitialized, ReasonUnknownContainerStatuses, "")
	}
	var unknown, incomplete []string
	for i := range in.Spec.InitContainers {
		name := in.Spec.InitContainers[i].Name
		switch s := podfacts.ContainerStatus(in.Status.InitContainerStatuses, name); {
		case s == nil:
			unknown = append(unknown, name)
		case !in.Complete(i, s):
			incomplete = append(incomplete, name)
		}
	}
	if in.Status.Phase == v1.PodSucceeded && len(unknown) == 0 {
		yes.Reason = ReasonPodCompleted
		return yes
	}
	message := listed("unknown status", unknown, "incomplete status", incomplete)
	if message == "" || in.Proven || in.Stays {
		return yes
	}
	return False(v1.PodInitialized, ReasonContainersNotInitialized, message)
}

// AnyStarted reports whether a container runs or has run.
func AnyStarted(list []v1.ContainerStatus) bool {
	return slices.ContainsFunc(list, func(s v1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil
	})
}

// RemovedForRestart reports whether a container was removed for an in-place restart of all containers, and has not
// ended since.
func RemovedForRestart(status *v1.PodStatus) bool {
	removed := func(s v1.ContainerStatus) bool {
		last := s.LastTerminationState.Terminated
		return s.State.Terminated == nil && last != nil && last.Reason == ReasonRestartingAll
	}
	return slices.ContainsFunc(status.InitContainerStatuses, removed) || slices.ContainsFunc(status.ContainerStatuses, removed)
}

// False returns a condition of type t with status False.
func False(t v1.PodConditionType, reason, message string) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: v1.ConditionFalse, Reason: reason, Message: message}
}

// listed returns "containers with X: [a b], containers with Y: [c]", without empty parts.
func listed(first string, a []string, second string, b []string) string {
	var parts []string
	if len(a) > 0 {
		parts = append(parts, "containers with "+first+": ["+strings.Join(a, " ")+"]")
	}
	if len(b) > 0 {
		parts = append(parts, "containers with "+second+": ["+strings.Join(b, " ")+"]")
	}
	return strings.Join(parts, ", ")
}
