// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podconditions"
)

// The reasons of containers that wait for their turn, in the kubelet's words (1.36). All other
// reasons are failures.
const (
	reasonPodInitializing   = "PodInitializing"
	reasonContainerCreating = "ContainerCreating"
)

// CoalesceInit returns an Options.Coalesce that delays, by d, the changes between init containers
// while a pod is pending. Changes of the phase, failed init containers, failed starts of init
// containers, the end of init and the start of a regular container are written at once. The kubelet
// may do so with 2 s (pull request 138795).
func CoalesceInit(d time.Duration) func(Change) time.Duration {
	return func(c Change) time.Duration {
		if c.Old == nil || c.New.Phase != v1.PodPending || !initGoesOn(c.Pod, c.New) ||
			!sameBesidesInit(c.Old, c.New) {
			return 0
		}
		return d
	}
}

// initGoesOn reports whether init has begun, no init container has failed or could not be started,
// and at least one has not completed.
func initGoesOn(pod *v1.Pod, status *v1.PodStatus) bool {
	done := 0
	for i := range status.InitContainerStatuses {
		s := &status.InitContainerStatuses[i]
		for _, state := range []*v1.ContainerState{&s.State, &s.LastTerminationState} {
			if state.Terminated != nil && state.Terminated.ExitCode != 0 {
				return false
			}
		}
		if w := s.State.Waiting; w != nil && w.Reason != reasonPodInitializing && w.Reason != reasonContainerCreating {
			return false
		}
		if s.State.Terminated != nil || s.Ready {
			done++
		}
	}
	return done < len(pod.Spec.InitContainers) && podconditions.AnyStarted(status.InitContainerStatuses)
}

// sameBesidesInit reports whether two statuses differ only in init containers and the text of
// conditions.
func sameBesidesInit(a, b *v1.PodStatus) bool {
	for _, t := range []v1.PodConditionType{v1.PodReady, v1.PodInitialized, v1.PodReadyToStartContainers, v1.DisruptionTarget,
		v1.PodResizePending, v1.PodResizeInProgress} {
		if conditionStatus(a.Conditions, t) != conditionStatus(b.Conditions, t) {
			return false
		}
	}
	x, y := *a, *b
	x.Conditions, y.Conditions = nil, nil
	x.InitContainerStatuses, y.InitContainerStatuses = nil, nil
	return Equal(&x, &y)
}
