// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// setTransitionTimes sets the transition time of every owned or shared condition of status. If old
// has the same status for the condition, its time is kept; otherwise the time is now.
// setTransitionTimes writes to the slice of status.
func setTransitionTimes(old, status *v1.PodStatus, now metav1.Time) {
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if !owned(c.Type) && !shared(c.Type) {
			continue
		}
		before := podfacts.Condition(old.Conditions, c.Type)
		if before != nil && before.Status == c.Status && !before.LastTransitionTime.IsZero() {
			c.LastTransitionTime = before.LastTransitionTime
			continue
		}
		c.LastTransitionTime = now
	}
}

// setStartTime keeps the start time of old, or sets now if neither status has a start time.
func setStartTime(old, status *v1.PodStatus, now metav1.Time) {
	switch {
	case !old.StartTime.IsZero():
		status.StartTime = old.StartTime.DeepCopy()
	case status.StartTime.IsZero():
		status.StartTime = &now
	}
}
