// SPDX-License-Identifier: Apache-2.0

// Package podfacts derives facts from a pod object alone. All parts use the same functions. If only
// one of two parts considered a pod static, neither part would handle the pod.
package podfacts

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

// Annotations with the source of a pod, under the kubelet's names (1.36).
const (
	AnnotationSource = "kubernetes.io/config.source"
	AnnotationMirror = "kubernetes.io/config.mirror"
	AnnotationHash   = "kubernetes.io/config.hash"
)

// SourceAPI is the value of AnnotationSource for pods of an API server.
const SourceAPI = "api"

// IsStatic reports whether pod comes from a source other than the API server. A pod without source is not static.
func IsStatic(pod *v1.Pod) bool {
	source, ok := pod.Annotations[AnnotationSource]
	return ok && source != SourceAPI
}

// StaticName returns name_namespace of a static pod, and "" for other pods and for nil. Two static pods with the same
// StaticName never run at the same time, even if their UIDs differ.
func StaticName(pod *v1.Pod) string {
	if pod == nil || !IsStatic(pod) {
		return ""
	}
	return pod.Name + "_" + pod.Namespace
}

// IsMirror reports whether pod is a mirror pod: the API server's copy of a static pod.
func IsMirror(pod *v1.Pod) bool {
	_, ok := pod.Annotations[AnnotationMirror]
	return ok
}

// CriticalPriority is the lowest priority of the reserved system classes, that of system-cluster-critical (kubelet:
// scheduling.SystemCriticalPriority).
const CriticalPriority = 2_000_000_000

// Priority returns the priority of a pod, 0 without one.
func Priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// IsCritical reports whether pod is static, a mirror, or of system-critical priority.
func IsCritical(pod *v1.Pod) bool {
	return IsStatic(pod) || IsMirror(pod) || Priority(pod) >= CriticalPriority
}

// GracePeriodSeconds returns the grace period of the spec, without a value the API's default.
func GracePeriodSeconds(pod *v1.Pod) int64 {
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		return *grace
	}
	return v1.DefaultTerminationGracePeriodSeconds
}

// IsTerminal reports whether phase is Succeeded or Failed.
func IsTerminal(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

// IsSidecar reports whether an init container is a sidecar, which runs as long as the pod.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// GatesDiffer reports whether the conditions of the readiness gates of pod, which other clients set, differ between old
// and pod. The pod's readiness follows them.
func GatesDiffer(old, pod *v1.Pod) bool {
	for _, gate := range pod.Spec.ReadinessGates {
		if conditionStatus(&old.Status, gate.ConditionType) != conditionStatus(&pod.Status, gate.ConditionType) {
			return true
		}
	}
	return false
}

// conditionStatus returns the status of a condition, "" without the condition.
func conditionStatus(status *v1.PodStatus, kind v1.PodConditionType) v1.ConditionStatus {
	if c := Condition(status.Conditions, kind); c != nil {
		return c.Status
	}
	return ""
}

// Condition returns the condition of a type, or nil. It points into the list.
func Condition(list []v1.PodCondition, kind v1.PodConditionType) *v1.PodCondition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}

// IsTrue reports whether the condition of a type is present and True.
func IsTrue(list []v1.PodCondition, kind v1.PodConditionType) bool {
	c := Condition(list, kind)
	return c != nil && c.Status == v1.ConditionTrue
}

// ContainerStatus returns the status of a container, or nil. It points into the list.
func ContainerStatus(list []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// Containers yields the init containers and then the regular containers.
func Containers(spec *v1.PodSpec) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		_ = yieldAll(spec.InitContainers, yield) && yieldAll(spec.Containers, yield)
	}
}

// AllContainers yields the init, the regular and the ephemeral containers.
func AllContainers(spec *v1.PodSpec) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		_ = yieldAll(spec.InitContainers, yield) && yieldAll(spec.Containers, yield) &&
			yieldAll(spec.EphemeralContainers, func(c *v1.EphemeralContainer) bool {
				return yield((*v1.Container)(&c.EphemeralContainerCommon))
			})
	}
}

// Statuses yields the statuses of the init containers and then of the regular containers.
func Statuses(status *v1.PodStatus) iter.Seq[*v1.ContainerStatus] {
	return func(yield func(*v1.ContainerStatus) bool) {
		_ = yieldAll(status.InitContainerStatuses, yield) && yieldAll(status.ContainerStatuses, yield)
	}
}

// AllStatuses yields the statuses of the init, the regular and the ephemeral containers.
func AllStatuses(status *v1.PodStatus) iter.Seq[*v1.ContainerStatus] {
	return func(yield func(*v1.ContainerStatus) bool) {
		_ = yieldAll(status.InitContainerStatuses, yield) && yieldAll(status.ContainerStatuses, yield) &&
			yieldAll(status.EphemeralContainerStatuses, yield)
	}
}

func yieldAll[T any](list []T, yield func(*T) bool) (more bool) {
	for i := range list {
		if !yield(&list[i]) {
			return false
		}
	}
	return true
}

// HasProbes reports whether any init or regular container has a probe.
func HasProbes(spec *v1.PodSpec) bool {
	for c := range Containers(spec) {
		if c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil {
			return true
		}
	}
	return false
}

// Reference returns the reference of events about a pod. Events about a container add the FieldPath.
func Reference(pod *v1.Pod) *v1.ObjectReference {
	return &v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}
