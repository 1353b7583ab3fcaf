// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/restartrule"
)

func isStarted(s *v1.ContainerStatus) bool { return s.Started != nil && *s.Started }

// statusByID returns the status of the regular or init container with the given ID, or nil.
func statusByID(status *v1.PodStatus, id string) *v1.ContainerStatus {
	for s := range podfacts.Statuses(status) {
		if s.ContainerID == id {
			return s
		}
	}
	return nil
}

// anyRunning reports whether status shows a running container.
func anyRunning(status *v1.PodStatus) bool {
	runs := func(s v1.ContainerStatus) bool { return s.State.Running != nil }
	return slices.ContainsFunc(status.ContainerStatuses, runs) || slices.ContainsFunc(status.InitContainerStatuses, runs) ||
		slices.ContainsFunc(status.EphemeralContainerStatuses, runs)
}

// restarts reports whether the restart rules of the pod and its container restart the container after
// an end.
func restarts(spec *v1.PodSpec, name string, ended *v1.ContainerStateTerminated) bool {
	for c := range podfacts.Containers(spec) {
		if c.Name == name {
			return restartrule.AfterExit(spec, c, ended.ExitCode, ended.Reason)
		}
	}
	return restartrule.AfterExit(spec, &v1.Container{}, ended.ExitCode, ended.Reason)
}
