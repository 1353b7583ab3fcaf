// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podconditions"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/restartrule"
)

// owned reports whether the conditions of type t are the node agent's alone. DisruptionTarget is
// shared with other writers; all remaining types belong to other writers.
func owned(t v1.PodConditionType) bool {
	switch t {
	case v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady, v1.PodReadyToStartContainers,
		v1.AllContainersRestarting, v1.PodResizePending, v1.PodResizeInProgress:
		return true
	}
	return false
}

// shared reports whether both the agent and other writers set conditions of type t.
func shared(t v1.PodConditionType) bool { return t == v1.DisruptionTarget }

// initializedCondition says whether the init containers of the pod are done. If status has the
// condition as True, and shows that all containers are being restarted in place, the condition
// stays True. The condition has no times.
func initializedCondition(spec *v1.PodSpec, status *v1.PodStatus) v1.PodCondition {
	return podconditions.Initialized(podconditions.Init{
		Spec: spec, Status: status,
		Complete: func(i int, s *v1.ContainerStatus) bool {
			if podfacts.IsSidecar(&spec.InitContainers[i]) {
				return isStarted(s)
			}
			return s.Ready
		},
		Proven: podconditions.AnyStarted(status.ContainerStatuses),
		Stays:  conditionStatus(status.Conditions, v1.PodInitialized) == v1.ConditionTrue && restartsInPlace(spec, status),
	})
}

// restartsInPlace reports whether status shows a restart of all containers within the same sandbox.
func restartsInPlace(spec *v1.PodSpec, status *v1.PodStatus) bool {
	return restartrule.MayRestartAll(spec) && (podconditions.RemovedForRestart(status) ||
		conditionStatus(status.Conditions, v1.AllContainersRestarting) == v1.ConditionTrue)
}

// completeConditions adds the conditions of every pod that are missing in status. old is the
// previous status, and gates are the conditions for readiness gates.
func completeConditions(pod *v1.Pod, old, status *v1.PodStatus, gates []v1.PodCondition) {
	if podfacts.Condition(status.Conditions, v1.PodScheduled) == nil {
		setCondition(status, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, ObservedGeneration: pod.Generation})
	}
	if podfacts.Condition(status.Conditions, v1.PodInitialized) == nil {
		if before := podfacts.Condition(old.Conditions, v1.PodInitialized); before != nil {
			setCondition(status, *before)
		}
		c := initializedCondition(&pod.Spec, status)
		c.ObservedGeneration = pod.Generation
		setCondition(status, c)
	}
	if podfacts.Condition(status.Conditions, v1.ContainersReady) == nil || podfacts.Condition(status.Conditions, v1.PodReady) == nil {
		setReadiness(pod, status, gates)
		return
	}
	applyGates(pod, status, gates)
}

// setReadiness makes ContainersReady and Ready anew from the container statuses.
func setReadiness(pod *v1.Pod, status *v1.PodStatus, gates []v1.PodCondition) {
	containers := podconditions.ContainersReady(&pod.Spec, status)
	ready := podconditions.PodReady(&pod.Spec, containers, gates)
	for _, c := range []v1.PodCondition{ready, containers} {
		c.ObservedGeneration = pod.Generation
		setCondition(status, c)
	}
}

// applyGates recomputes Ready from ContainersReady and the pod's readiness gates, if any.
func applyGates(pod *v1.Pod, status *v1.PodStatus, gates []v1.PodCondition) {
	containers := podfacts.Condition(status.Conditions, v1.ContainersReady)
	if len(pod.Spec.ReadinessGates) == 0 || containers == nil {
		return
	}
	ready := podconditions.PodReady(&pod.Spec, *containers, gates)
	ready.ObservedGeneration = containers.ObservedGeneration
	setCondition(status, ready)
}

// endReadiness sets ContainersReady and Ready of an ended pod to False, unless both are present and
// neither is True (#108594).
func endReadiness(status *v1.PodStatus) {
	both := [...]v1.PodConditionType{v1.PodReady, v1.ContainersReady}
	denied := func(t v1.PodConditionType) bool {
		c := podfacts.Condition(status.Conditions, t)
		return c != nil && c.Status != v1.ConditionTrue
	}
	if !podfacts.IsTerminal(status.Phase) || denied(both[0]) && denied(both[1]) {
		return
	}
	reason := podconditions.ReasonPodCompleted
	if status.Phase == v1.PodFailed {
		reason = podconditions.ReasonPodFailed
	}
	for _, t := range both {
		c := podconditions.False(t, reason, "")
		c.ObservedGeneration = status.ObservedGeneration
		if old := podfacts.Condition(status.Conditions, t); old != nil {
			c.ObservedGeneration = old.ObservedGeneration
		}
		setCondition(status, c)
	}
}

// setCondition replaces the condition of c's type in place, or appends c. setCondition writes to
// the slice of status. If the condition's status is unchanged, the transition time is kept.
func setCondition(status *v1.PodStatus, c v1.PodCondition) {
	old := podfacts.Condition(status.Conditions, c.Type)
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

// conditionStatus returns the status of a condition; a missing condition is False.
func conditionStatus(list []v1.PodCondition, t v1.PodConditionType) v1.ConditionStatus {
	if c := podfacts.Condition(list, t); c != nil {
		return c.Status
	}
	return v1.ConditionFalse
}
