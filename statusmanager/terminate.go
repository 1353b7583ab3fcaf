// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// The status of a container without a known end, in the kubelet's words (1.36).
const (
	reasonContainerStatusUnknown  = "ContainerStatusUnknown"
	messageContainerStatusUnknown = "The container could not be located when the pod was terminated"
	exitCodeStatusUnknown         = 137
)

// terminate edits status, a private copy, for a pod without running containers. Started containers
// have terminated, and so has the pod unless it is static.
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
	if !podfacts.IsTerminal(status.Phase) && !podfacts.IsStatic(pod) {
		status.Phase = v1.PodFailed
	}
}

// end marks a container as terminated, unless it has terminated already.
func end(s *v1.ContainerStatus) {
	s.Ready, s.Started = false, new(bool)
	if s.State.Terminated != nil {
		return
	}
	s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		Reason: reasonContainerStatusUnknown, Message: messageContainerStatusUnknown, ExitCode: exitCodeStatusUnknown,
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
	s := podfacts.ContainerStatus(status.InitContainerStatuses, c.Name)
	switch {
	case s == nil:
		return false
	case podfacts.IsSidecar(c) && s.State.Running != nil:
		return isStarted(s)
	}
	ended := func(t *v1.ContainerStateTerminated) bool { return t != nil && t.ExitCode == 0 }
	return ended(s.State.Terminated) || ended(s.LastTerminationState.Terminated)
}

// lastStartedInit returns the index of the last started init container. If none was started, the
// index is 0; without init containers, −1.
func lastStartedInit(list []v1.ContainerStatus) int {
	for i := range slices.Backward(list) {
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
