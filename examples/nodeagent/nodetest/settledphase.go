// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// phaseFits checks the phase of a settled pod with a second, simple model of its containers. It
// checks only pods with complete facts: no container is in an unknown state, and every newest
// instance is in the current sandbox.
func phaseFits(pod *v1.Pod, status *v1.PodStatus, truth *runtime.PodStatus) error {
	var running, ended, failed int
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		newest := truth.Latest(c.Name)
		if newest == nil || newest != truth.Active(c.Name) {
			return nil
		}
		switch {
		case newest.State == runtime.StateRunning:
			running++
		case newest.State == runtime.StateExited && !comesAgain(pod, c, newest.ExitCode):
			ended++
			if newest.ExitCode != 0 {
				failed++
			}
		case newest.State != runtime.StateExited:
			return nil
		}
	}
	all := len(pod.Spec.Containers)
	sidecars := slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return podfacts.IsSidecar(&c) })
	switch {
	case ended == all && failed == 0:
		return differs("the phase of a pod whose containers have all completed", v1.PodSucceeded, status.Phase)
	case ended == all:
		return differs("the phase of a pod whose containers have all ended, and not all completed", v1.PodFailed, status.Phase)
	case running+ended == all && !sidecars:
		return differs("the phase of a pod whose containers run", v1.PodRunning, status.Phase)
	}
	return nil
}

// comesAgain reports whether a regular container is started again after an exit.
func comesAgain(pod *v1.Pod, c *v1.Container, code int32) bool {
	policy := policyOf(pod, c)
	return ruleFor(c, code) != nil || policy == v1.RestartPolicyAlways || policy == v1.RestartPolicyOnFailure && code != 0
}

// conditionsFit checks that the conditions other than Ready and ContainersReady follow from the
// containers, and each condition that is False because of containers gives the reason.
func conditionsFit(pod *v1.Pod, status *v1.PodStatus, truth *runtime.PodStatus) error {
	is := make(map[v1.PodConditionType]v1.PodCondition)
	for _, c := range status.Conditions {
		if _, twice := is[c.Type]; twice {
			return fmt.Errorf("condition %s stands twice in the status", c.Type)
		}
		if c.LastTransitionTime.IsZero() && c.Type != v1.DisruptionTarget {
			return fmt.Errorf("condition %s has no time of its last transition", c.Type)
		}
		is[c.Type] = c
	}
	if is[v1.PodScheduled].Status != v1.ConditionTrue {
		return fmt.Errorf("condition PodScheduled is %q", is[v1.PodScheduled].Status)
	}
	mainRuns := slices.ContainsFunc(truth.Running(), func(in *runtime.ContainerStatus) bool {
		return in.State == runtime.StateRunning && slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return c.Name == in.Name })
	})
	for _, kind := range []v1.PodConditionType{v1.PodInitialized, v1.PodReadyToStartContainers} {
		if mainRuns && is[kind].Status != v1.ConditionTrue {
			return fmt.Errorf("a regular container runs, and condition %s is %q", kind, is[kind].Status)
		}
	}
	if neverBegun(pod, truth) && !saysCompleted(status) && is[v1.PodInitialized].Status != v1.ConditionFalse {
		return fmt.Errorf("no init container has ever completed, and condition Initialized is %q", is[v1.PodInitialized].Status)
	}
	for _, kind := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
		if want := reasonNotReady(status.Phase); is[kind].Status == v1.ConditionFalse && is[kind].Reason != want && (over(status.Phase) || len(pod.Spec.ReadinessGates) == 0) {
			return fmt.Errorf("condition %s is False for reason %q, not %q", kind, is[kind].Reason, want)
		}
	}
	if all, ok := is[v1.AllContainersRestarting]; ok && over(status.Phase) && (all.Status != v1.ConditionFalse || all.Reason != reasonNotReady(status.Phase)) {
		return fmt.Errorf("the pod has ended, and condition %s is %q for reason %q", all.Type, all.Status, all.Reason)
	}
	return nil
}

// saysCompleted reports whether the status shows a completed init container. The record of the
// container may be lost, or removed for a restart of all containers. A regular container whose
// record was removed for such a restart proves completed init, too.
func saysCompleted(status *v1.PodStatus) bool {
	restarted := func(c v1.ContainerStatus) bool {
		last := c.LastTerminationState.Terminated
		return last != nil && last.Reason == podstatus.ReasonRestartingAll
	}
	return slices.ContainsFunc(status.ContainerStatuses, restarted) || slices.ContainsFunc(status.InitContainerStatuses, func(c v1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.ExitCode == 0 || restarted(c)
	})
}

// reasonNotReady returns the kubelet's reason for a pod that is not ready in this phase.
func reasonNotReady(phase v1.PodPhase) string {
	switch phase {
	case v1.PodSucceeded:
		return "PodCompleted"
	case v1.PodFailed:
		return "PodFailed"
	}
	return "ContainersNotReady"
}

// neverBegun reports whether the first of the pod's init containers that run to completion has
// never exited with 0, and no regular container was ever created.
func neverBegun(pod *v1.Pod, truth *runtime.PodStatus) bool {
	if len(pod.Spec.InitContainers) == 0 || podfacts.IsSidecar(&pod.Spec.InitContainers[0]) {
		return false
	}
	first := pod.Spec.InitContainers[0].Name
	return !slices.ContainsFunc(truth.Containers, func(in runtime.ContainerStatus) bool {
		isMain := slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return c.Name == in.Name })
		return isMain || in.Name == first && in.State == runtime.StateExited && in.ExitCode == 0
	})
}

// containersFit checks that the status of each instance agrees with the record of the runtime.
// Containers in unheeded had an instance that an agent removed at its start. The instance ran, and
// its successor was created with the same restart count, so that the published count is higher.
func containersFit(status *v1.PodStatus, truth *runtime.PodStatus, unheeded map[string]bool) error {
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			c := &list[i]
			in := truth.Latest(c.Name)
			if in == nil || in.ID.String() != c.ContainerID {
				continue
			}
			switch {
			// The records of later instances of a pod that is over may have been collected.
			case c.RestartCount != in.RestartCount && !(c.RestartCount > in.RestartCount && (over(status.Phase) || unheeded[c.Name])):
				return fmt.Errorf("container %s has restart count %d, and its instance %s was created with %d", c.Name, c.RestartCount, in.ID, in.RestartCount)
			case c.State.Running != nil && !c.State.Running.StartedAt.Time.Equal(in.StartedAt):
				return fmt.Errorf("container %s is published as running since %v, and does since %v", c.Name, c.State.Running.StartedAt, in.StartedAt)
			case c.State.Terminated != nil && c.State.Terminated.ContainerID == c.ContainerID && !c.State.Terminated.FinishedAt.Time.Equal(in.FinishedAt):
				return fmt.Errorf("container %s is published as ended at %v, and has at %v", c.Name, c.State.Terminated.FinishedAt, in.FinishedAt)
			case c.State.Terminated != nil && c.State.Terminated.ContainerID == c.ContainerID && (c.State.Terminated.Reason != in.Reason || !c.State.Terminated.StartedAt.Time.Equal(shownStart(in))):
				return fmt.Errorf("container %s is published as ended for reason %q since %v, and has for %q since %v", c.Name, c.State.Terminated.Reason, c.State.Terminated.StartedAt, in.Reason, in.StartedAt)
			case c.State.Waiting != nil && c.State.Waiting.Reason == "" && in.State == runtime.StateExited:
				return fmt.Errorf("container %s waits without a reason", c.Name)
			case c.State.Waiting != nil && in.State == runtime.StateExited && (c.LastTerminationState.Terminated == nil || c.LastTerminationState.Terminated.ExitCode != in.ExitCode):
				return fmt.Errorf("container %s waits, and its last end is %v, not that with code %d", c.Name, c.LastTerminationState.Terminated, in.ExitCode)
			}
		}
	}
	return nil
}

// longRunning is the time after which the probes of described pods have given their results.
const longRunning = 2 * time.Minute

// waitsForSidecar reports whether a sidecar other than c does not run, or began to run recently.
// Containers behind it are kept until it is up.
func waitsForSidecar(pod *v1.Pod, c *v1.Container, truth *runtime.PodStatus) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(s v1.Container) bool {
		in := truth.Active(s.Name)
		return podfacts.IsSidecar(&s) && s.Name != c.Name && (in == nil || in.State != runtime.StateRunning || time.Since(in.StartedAt) < longRunning)
	})
}

// probesFit checks that if an instance has run for long and its probes have given constant results,
// its published status follows the results. An instance whose liveness or startup probe failed does
// not run any more.
func (p *player) probesFit(pod *v1.Pod, status *v1.PodStatus, truth *runtime.PodStatus) error {
	for _, c := range allContainers(pod) {
		in := truth.Active(c.Name)
		if in == nil || in.State != runtime.StateRunning || isPlainInit(pod, c) || time.Since(in.StartedAt) < longRunning {
			continue
		}
		shown := containerStatus(status, c.Name)
		well := p.node.World.Ready(in.ID) && !p.node.history.sickNow(pod.UID, c.Name)
		switch {
		case shown == nil || shown.State.Running == nil || shown.ContainerID != in.ID.String():
		case !well && (c.LivenessProbe != nil || c.StartupProbe != nil) && (waitsForSidecar(pod, c, truth) || podfacts.IsSidecar(c) && p.hookHangs(pod)):
		case !well && (c.LivenessProbe != nil || c.StartupProbe != nil):
			return fmt.Errorf("container %s fails its liveness or startup probe, and runs since %v", c.Name, in.StartedAt)
		case shown.Started == nil || !*shown.Started:
			return fmt.Errorf("container %s runs since %v, and is not published as started", c.Name, in.StartedAt)
		case shown.Ready != (well || c.ReadinessProbe == nil):
			return fmt.Errorf("container %s runs since %v, and is published with ready %t", c.Name, in.StartedAt, shown.Ready)
		}
	}
	return nil
}

// shownStart returns the published start time of an exited instance. As in the kubelet, an instance
// that never started has begun with the epoch.
func shownStart(in *runtime.ContainerStatus) time.Time {
	if in.StartedAt.IsZero() {
		return time.Unix(0, 0)
	}
	return in.StartedAt
}
