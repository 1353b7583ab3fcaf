// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	v1 "k8s.io/api/core/v1"
)

// What is said of a container whose end nobody has seen, with the kubelet's words (1.36).
const (
	ReasonContainerStatusUnknown  = "ContainerStatusUnknown"
	messageContainerStatusUnknown = "The container could not be located when the pod was terminated"
	exitCodeStatusUnknown         = 137
)

// terminate changes status, a private copy, to what is true of a pod none of whose containers runs or will run: what
// was started has ended, and so has the pod unless it is static.
func terminate(pod *v1.Pod, status *v1.PodStatus) {
	if initialized(&pod.Spec, status) {
		for i := range status.ContainerStatuses {
			end(&status.ContainerStatuses[i])
		}
	}
	for i := range lastStartedInit(status.InitContainerStatuses) + 1 {
		end(&status.InitContainerStatuses[i])
	}
	for i := range status.EphemeralContainerStatuses {
		if s := &status.EphemeralContainerStatuses[i]; s.State.Running != nil {
			end(s)
		}
	}
	if !isTerminal(status.Phase) && !isStatic(pod) {
		status.Phase = v1.PodFailed
	}
}

// end gives a container that has not ended an end.
func end(s *v1.ContainerStatus) {
	s.Ready, s.Started = false, new(bool)
	if s.State.Terminated != nil {
		return
	}
	s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		Reason: ReasonContainerStatusUnknown, Message: messageContainerStatusUnknown, ExitCode: exitCodeStatusUnknown,
		ContainerID: s.ContainerID,
	}}
}

// initialized reports whether regular containers may have been started.
func initialized(spec *v1.PodSpec, status *v1.PodStatus) bool {
	if len(spec.InitContainers) == 0 {
		return true
	}
	for i := range status.ContainerStatuses {
		if begun(&status.ContainerStatuses[i]) {
			return true
		}
	}
	c := &spec.InitContainers[len(spec.InitContainers)-1]
	s := containerStatus(status.InitContainerStatuses, c.Name)
	switch {
	case s == nil:
		return false
	case isSidecar(c) && s.State.Running != nil:
		return isStarted(s)
	}
	ended := func(t *v1.ContainerStateTerminated) bool { return t != nil && t.ExitCode == 0 }
	return ended(s.State.Terminated) || ended(s.LastTerminationState.Terminated)
}

// lastStartedInit is the index of the last init container that was started; if none was, of the first; −1 without any.
func lastStartedInit(list []v1.ContainerStatus) int {
	for i := len(list) - 1; i >= 0; i-- {
		if begun(&list[i]) {
			return i
		}
	}
	return min(len(list), 1) - 1
}

// begun reports whether a container was started at least once.
func begun(s *v1.ContainerStatus) bool {
	return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
}
