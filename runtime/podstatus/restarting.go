// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// readyAfterExit is how long a container that a sync is restarting still counts as running after
// the exit. A restart that takes less causes no status in which the pod is not ready. The kubelet
// publishes no such status either: its worker is busy with the restart, however long that takes.
const readyAfterExit = time.Second

// holdReadiness returns the observation in which each container that exited within readyAfterExit
// and is being restarted still runs, if the previous status shows the same instance running. A
// successor that has not started is left out. holdReadiness writes to no argument.
func holdReadiness(observed *runtime.PodStatus, before *v1.PodStatus, restarting []string, now time.Time) *runtime.PodStatus {
	for _, name := range restarting {
		ended := newestStarted(observed, name)
		if ended < 0 || now.Sub(observed.Containers[ended].FinishedAt) >= readyAfterExit || !showsRunning(before, &observed.Containers[ended]) {
			continue
		}
		held := *observed
		held.Containers = slices.Clone(observed.Containers)
		c := &held.Containers[ended]
		c.State, c.ExitCode, c.Reason, c.Message, c.FinishedAt = runtime.StateRunning, 0, "", "", time.Time{}
		held.Containers = slices.DeleteFunc(held.Containers, func(c runtime.ContainerStatus) bool {
			return c.Name == name && c.State == runtime.StateCreated
		})
		observed = &held
	}
	return observed
}

// newestStarted returns the index of the newest instance of a container that has started, or -1.
func newestStarted(observed *runtime.PodStatus, name string) int {
	if observed == nil {
		return -1
	}
	return slices.IndexFunc(observed.Containers, func(c runtime.ContainerStatus) bool {
		return c.Name == name && c.State != runtime.StateCreated
	})
}

// showsRunning reports whether the status shows the instance as running.
func showsRunning(status *v1.PodStatus, c *runtime.ContainerStatus) bool {
	for s := range podfacts.AllStatuses(status) {
		if s.ContainerID == c.ID.String() {
			return s.State.Running != nil
		}
	}
	return false
}

// holdBack replaces the state of each container that exited and is being restarted by the previous
// state of the same instance, which is not ready any more.
func holdBack(statuses, before []v1.ContainerStatus, restarting []string) {
	for i := range statuses {
		ended := &statuses[i]
		if ended.State.Terminated == nil || !slices.Contains(restarting, ended.Name) {
			continue
		}
		if was := podfacts.ContainerStatus(before, ended.Name); was != nil && was.ContainerID == ended.ContainerID {
			*ended = *was.DeepCopy()
			ended.Ready = false
		}
	}
}

// SetWaitingMessage sets the message of each waiting container for which no start was tried yet.
func SetWaitingMessage(status *v1.PodStatus, message string) {
	for s := range podfacts.AllStatuses(status) {
		w := s.State.Waiting
		if w != nil && (w.Reason == ReasonContainerCreating || w.Reason == ReasonPodInitializing) {
			w.Message = message
		}
	}
}

// Names reports whether a status names an instance, as the newest instance of its container or as
// the last terminated instance.
func Names(status *v1.PodStatus, id runtime.ContainerID) bool {
	for s := range podfacts.AllStatuses(status) {
		last := s.LastTerminationState.Terminated
		if s.ContainerID == id.String() || last != nil && last.ContainerID == id.String() {
			return true
		}
	}
	return false
}
