// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// checkForms checks each published status by itself: whatever happens on a node, the parts of a status agree with each other
// and with the pod's spec.
func checkForms(h History) error {
	versions := make(map[types.UID][]*v1.Pod)
	for _, t := range h.Told {
		for _, pod := range t.Pods {
			versions[pod.UID] = append(versions[pod.UID], pod)
		}
	}
	var errs []error
	for _, s := range h.Statuses {
		if s.Status.Phase == v1.PodFailed && s.Status.InitContainerStatuses == nil && s.Status.ContainerStatuses == nil {
			continue // the pod was never admitted
		}
		var err error
		for _, pod := range append([]*v1.Pod{s.Pod}, versions[s.Pod.UID]...) { // a status may be of an earlier manifest than the latest
			if err = formOf(pod, &s.Status); err == nil {
				break
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%.3fs: status of %s (%s): %w", s.At.Seconds(), s.Pod.Name, s.Pod.UID, err))
		}
	}
	return errors.Join(errs[:min(len(errs), mostTold)]...)
}

func formOf(pod *v1.Pod, status *v1.PodStatus) error {
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			if err := containerForm(&list[i]); err != nil {
				return fmt.Errorf("container %s %w", list[i].Name, err)
			}
		}
	}
	if want := namesOf(pod.Spec.InitContainers, false); !slices.Equal(want, namesOfStatuses(status.InitContainerStatuses)) {
		return fmt.Errorf("its init containers are %v, and the statuses are of %v", want, namesOfStatuses(status.InitContainerStatuses))
	}
	if want := namesOf(pod.Spec.Containers, true); !slices.Equal(want, namesOfStatuses(status.ContainerStatuses)) {
		return fmt.Errorf("its containers are %v, and the statuses are of %v", want, namesOfStatuses(status.ContainerStatuses))
	}
	return errors.Join(conditionsForm(pod, status), addressForm(status))
}

// containerForm checks that a container has a single state, and that its facts are complete.
func containerForm(c *v1.ContainerStatus) error {
	states := 0
	for _, has := range []bool{c.State.Waiting != nil, c.State.Running != nil, c.State.Terminated != nil} {
		if has {
			states++
		}
	}
	if states != 1 {
		return fmt.Errorf("has %d states", states)
	}
	if last := c.LastTerminationState; last.Waiting != nil || last.Running != nil {
		return errors.New("has a last state that is no end")
	}
	for _, end := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
		switch {
		case end == nil:
		case end.Reason == "":
			return errors.New("has an end without a reason")
		case end.ExitCode == 0 && end.Reason == "Error", end.ExitCode != 0 && end.Reason == "Completed":
			return fmt.Errorf("has ended with code %d for reason %s", end.ExitCode, end.Reason)
		case end.FinishedAt.Time.Before(end.StartedAt.Time):
			return fmt.Errorf("has ended at %v, before its start at %v", end.FinishedAt, end.StartedAt)
		}
	}
	switch {
	case c.State.Running != nil && (c.ContainerID == "" || c.State.Running.StartedAt.IsZero()):
		return errors.New("runs without an ID or a time of its start")
	case c.Ready && c.State.Running == nil && (c.State.Terminated == nil || c.State.Terminated.ExitCode != 0):
		return errors.New("is ready and does not run")
	case c.Ready && c.State.Running != nil && (c.Started == nil || !*c.Started):
		return errors.New("is ready and has not started")
	}
	return nil
}

// conditionReasons are the reasons that a condition of a status may have.
var conditionReasons = map[v1.PodConditionType]map[v1.ConditionStatus][]string{
	v1.PodScheduled:              {v1.ConditionTrue: {""}},
	v1.PodInitialized:            {v1.ConditionTrue: {"", "PodCompleted"}, v1.ConditionFalse: {"ContainersNotInitialized"}},
	v1.PodReadyToStartContainers: {v1.ConditionTrue: {""}, v1.ConditionFalse: {"SandboxMissing", "MultipleReadySandboxes", "SandboxNotReady", "SandboxNetworkChanged", "SandboxWithoutIP"}},
	v1.ContainersReady:           {v1.ConditionTrue: {""}, v1.ConditionFalse: {"ContainersNotReady", "PodCompleted", "PodFailed"}},
	v1.PodReady:                  {v1.ConditionTrue: {""}, v1.ConditionFalse: {"ContainersNotReady", "PodCompleted", "PodFailed", "ReadinessGatesNotReady"}},
	v1.AllContainersRestarting:   {v1.ConditionTrue: {"RestartAllContainersStarted"}, v1.ConditionFalse: {"", "PodCompleted", "PodFailed"}},
	v1.PodResizePending:          {v1.ConditionTrue: {v1.PodReasonDeferred, v1.PodReasonInfeasible}},
	v1.PodResizeInProgress:       {v1.ConditionTrue: {"", v1.PodReasonError}},
}

// conditionsForm checks that each condition stands once with a reason of its kind, and that the conditions agree with the
// containers.
func conditionsForm(pod *v1.Pod, status *v1.PodStatus) error {
	seen := conditionsOf(status)
	if len(seen) != len(status.Conditions) {
		return errors.New("a condition stands twice")
	}
	for kind, c := range seen {
		if reasons, known := conditionReasons[kind]; known && !slices.Contains(reasons[c.Status], c.Reason) {
			return fmt.Errorf("condition %s is %s for reason %q", kind, c.Status, c.Reason)
		}
		if c.Status == v1.ConditionTrue && c.ObservedGeneration != status.ObservedGeneration && ofAgent(c) && kind != v1.AllContainersRestarting {
			return fmt.Errorf("condition %s has generation %d, and the status %d", kind, c.ObservedGeneration, status.ObservedGeneration)
		}
	}
	if podfacts.IsTerminal(status.Phase) {
		return nil // the containers of a pod that is ended by the node may still run
	}
	ready := true
	for _, s := range status.ContainerStatuses {
		ready = ready && s.Ready
	}
	for i, s := range status.InitContainerStatuses {
		ready = ready && (s.Ready || !podfacts.IsSidecar(&pod.Spec.InitContainers[i]))
	}
	if is := seen[v1.ContainersReady].Status == v1.ConditionTrue; is != ready {
		return fmt.Errorf("that all containers are ready is %t, and condition ContainersReady is %t", ready, is)
	}
	if seen[v1.PodReady].Status == v1.ConditionTrue && !ready {
		return errors.New("the pod is Ready, and its containers are not")
	}
	return nil
}

// addressForm checks that the first address of each list stands also alone.
func addressForm(status *v1.PodStatus) error {
	first := func(n int, ip func(int) string) string {
		if n == 0 {
			return ""
		}
		return ip(0)
	}
	if ip := first(len(status.PodIPs), func(i int) string { return status.PodIPs[i].IP }); ip != status.PodIP {
		return fmt.Errorf("its address is %q, and the first of its addresses %q", status.PodIP, ip)
	}
	if ip := first(len(status.HostIPs), func(i int) string { return status.HostIPs[i].IP }); ip != status.HostIP {
		return fmt.Errorf("its host's address is %q, and the first of them %q", status.HostIP, ip)
	}
	return nil
}

// namesOf returns the names of containers, in the order of their statuses.
func namesOf(list []v1.Container, byName bool) (names []string) {
	for i := range list {
		names = append(names, list[i].Name)
	}
	if byName {
		slices.Sort(names)
	}
	return names
}

func namesOfStatuses(list []v1.ContainerStatus) (names []string) {
	for i := range list {
		names = append(names, list[i].Name)
	}
	return names
}
