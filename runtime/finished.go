// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/restartrule"
)

// Reasons of terminations in a status that do not come from an exit.
const (
	reasonStatusUnknown = "ContainerStatusUnknown"
	reasonRestartingAll = "RestartingAllContainers"
)

// Finished reports whether container name has ended for good according to the status of its pod: it
// is a regular container, has ended, and is not restarted after that end. During a restart of all
// containers in place, no container is finished.
//
// Call Finished for a container whose records were removed. A container that is running in the
// status counts as ended in an unknown way. (The kubelet starts such a container again.) made is
// the container's instance if it never ran, else nil. With made, only an end in the State of the
// status counts. An end in LastTerminationState does not count, because made is the successor of
// that instance.
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
	case made != nil:
	case known.State.Waiting != nil:
		ended = known.LastTerminationState.Terminated
	case known.State.Running != nil:
		ended = &v1.ContainerStateTerminated{ExitCode: restartrule.ExitCodeKilled}
	}
	return ended != nil && ended.Reason != reasonRestartingAll && !restartrule.AfterExit(&pod.Spec, ref.Container(pod), ended.ExitCode, ended.Reason)
}

// lastSeen returns the last known status of regular container c from its newest record. The second
// result is true if c must not run again after a removal of the record: c has ended for good, or
// runs and is never restarted.
func lastSeen(pod *v1.Pod, c *v1.Container, newest *ContainerStatus) (ContainerStatus, bool) {
	switch {
	case newest == nil || newest.State == StateCreated:
		return ContainerStatus{}, false
	case newest.State == StateExited:
		return *newest, !restartrule.AfterExit(&pod.Spec, c, newest.ExitCode, newest.Reason)
	}
	lost := *newest
	lost.State, lost.ExitCode, lost.Reason = StateUnknown, restartrule.ExitCodeKilled, reasonStatusUnknown
	return lost, !restartrule.AfterExit(&pod.Spec, c, lost.ExitCode, lost.Reason)
}

// finishedBy reports whether container c has ended for good according to seen, a result of
// lastSeen. c has no record except made, which is nil or an instance that never ran.
func finishedBy(pod *v1.Pod, c *v1.Container, seen, made *ContainerStatus) bool {
	return (made == nil || seen.State == StateExited) && !restartrule.AfterExit(&pod.Spec, c, seen.ExitCode, seen.Reason)
}
