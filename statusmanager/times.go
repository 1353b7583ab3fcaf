// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setTransitionTimes gives every condition of status that is ours the time at which it took its status: as old has it if
// that has the same status, else now. It writes to the slice of status.
func setTransitionTimes(old, status *v1.PodStatus, now metav1.Time) {
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if !Owned(c.Type) && !shared(c.Type) {
			continue
		}
		before := condition(old.Conditions, c.Type)
		if before != nil && before.Status == c.Status && !before.LastTransitionTime.IsZero() {
			c.LastTransitionTime = before.LastTransitionTime
			continue
		}
		c.LastTransitionTime = now
	}
}

// setStartTime keeps the time at which the agent took in the pod.
func setStartTime(old, status *v1.PodStatus, now metav1.Time) {
	switch {
	case !old.StartTime.IsZero():
		status.StartTime = old.StartTime.DeepCopy()
	case status.StartTime.IsZero():
		status.StartTime = &now
	}
}
