// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Reasons of terminations in a status that are no exits of their own.
const (
	reasonStatusUnknown = "ContainerStatusUnknown"
	reasonRestartingAll = "RestartingAllContainers"
)

// Finished reports whether container name has run for good by the status of its pod:
// it is a regular one, has ended, and is not restarted after such an end. While all
// containers are restarted in place none has.
//
// It answers for a container whose records were removed: one that the status has running
// has ended, too, and it is not known how. (The kubelet starts it again.) If there is made,
// an instance that never ran, only an end counts that the status shows as the container's
// state: one that is behind it is to be followed.
func Finished(pod *v1.Pod, status *v1.PodStatus, name string, made *ContainerStatus) bool {
	ref, ok := Find(pod, name)
	at := slices.IndexFunc(status.ContainerStatuses, func(c v1.ContainerStatus) bool { return c.Name == name })
	restarting := slices.ContainsFunc(status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.AllContainersRestarting && c.Status == v1.ConditionTrue
	})
	if !ok || ref.Group != GroupRegular || at < 0 || restarting {
		return false
	}
	known := &status.ContainerStatuses[at]
	ended := known.State.Terminated
	switch {
	case ended != nil || made != nil:
	case known.State.Waiting != nil:
		ended = known.LastTerminationState.Terminated
	case known.State.Running != nil:
		ended = &v1.ContainerStateTerminated{ExitCode: exitCodeKilled, Reason: reasonStatusUnknown}
	}
	return ended != nil && ended.Reason != reasonRestartingAll && !RestartsAfterExit(pod, ref.Container(pod), ended.ExitCode, ended.Reason)
}

// lastSeen is how regular container c was by its newest record, if it does not run again
// should that record be removed: it has ended for good, or runs and is never restarted.
func lastSeen(pod *v1.Pod, c *v1.Container, newest *ContainerStatus) (ContainerStatus, bool) {
	switch {
	case newest == nil || newest.State == StateCreated:
		return ContainerStatus{}, false
	case newest.State == StateExited:
		return *newest, !RestartsAfterExit(pod, c, newest.ExitCode, newest.Reason)
	}
	lost := *newest
	lost.State, lost.ExitCode, lost.Reason = StateUnknown, exitCodeKilled, reasonStatusUnknown
	return lost, !RestartsAfterExit(pod, c, lost.ExitCode, lost.Reason)
}

// finishedBy reports whether seen, how container c was by lastSeen, says that c has run for
// good, now that there is no record of it but made, one that never ran.
func finishedBy(pod *v1.Pod, c *v1.Container, seen, made *ContainerStatus) bool {
	return (made == nil || seen.State == StateExited) && !RestartsAfterExit(pod, c, seen.ExitCode, seen.Reason)
}
