// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/restartrule"
)

// ShouldRestart reports whether container c of pod is to be started, given its newest instance.
// status is nil without an instance. The result is false for a running instance and in a pod that
// is being deleted, and true for an instance that was never started. The restart
// policies and rules decide about an exited instance. A container in an unknown state is restarted
// unless its policy is Never: such a container may have ended, and has to be stopped to learn its
// exit.
//
// The rules are those of the kubelet 1.36 (KEP-5307), except that the kubelet restarts a container
// in an unknown state under every policy. ShouldRestart does not apply to sidecars, which are
// always restarted, and to ephemeral containers, which are never restarted.
func ShouldRestart(pod *v1.Pod, c *v1.Container, status *ContainerStatus) bool {
	switch {
	case pod.DeletionTimestamp != nil:
		return false
	case status == nil:
		return true
	case status.State == StateRunning:
		return false
	case status.State == StateExited:
		return restartrule.AfterExit(&pod.Spec, c, status.ExitCode, status.Reason)
	case status.State == StateUnknown:
		return restartrule.AfterKill(&pod.Spec, c)
	default:
		return true
	}
}

// RestartAllTriggered reports whether all containers of pod are to be restarted in place
// (KEP-5532): the record of an exited init or regular container exists, and the matching rule of
// that container is RestartAllContainers. In a pod that is being deleted the result is false.
//
// Only instances in the current sandbox count. A lost sandbox takes all its containers along, so no
// restart is needed. The exits caused by stopping a finished pod must not start the pod again.
//
// Plan then resets all containers. Plan removes the triggering instances last, so that the answer
// stays the same until all containers are reset, also after a crash in between.
func RestartAllTriggered(pod *v1.Pod, status *PodStatus) bool {
	current := status.Current()
	if current == nil || pod.DeletionTimestamp != nil {
		return false
	}
	for c := range podfacts.Containers(&pod.Spec) {
		if !restartrule.CanRestartAll(c) {
			continue
		}
		for i := range status.Containers {
			st := &status.Containers[i]
			if st.Name == c.Name && st.Sandbox == current.ID && triggersRestartAll(pod, c, st) {
				return true
			}
		}
	}
	return false
}

// triggersRestartAll reports whether the exit of instance st of container c restarts the whole pod.
func triggersRestartAll(pod *v1.Pod, c *v1.Container, st *ContainerStatus) bool {
	return st.State == StateExited && restartrule.RestartsAll(&pod.Spec, c, st.ExitCode, st.Reason)
}
