// SPDX-License-Identifier: Apache-2.0

// Package deadline fails pods at their activeDeadlineSeconds, as the kubelet (1.36) does.
//
// Differences from the kubelet: the deadline interrupts the call in progress for the pod, such as
// pulling an image. The deadline of a static pod holds across restarts of the agent.
package deadline

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// Reason is the status reason of a pod at the end of its deadline.
const Reason = "DeadlineExceeded"

// New returns the feature. Sandboxes from before the call of New count as sandboxes of an earlier
// agent.
func New(h *feature.Host) feature.Feature {
	began, told := time.Now(), feature.NewSlot[bool](h.Table)
	return feature.Feature{
		Name: "deadline",
		Hook: podsync.Hook{Input: func(pod *v1.Pod, in *podstatus.Input) {
			if in.Previous.StartTime.IsZero() && pod.Status.StartTime.IsZero() && in.Observed != nil {
				in.Previous.StartTime = firstStart(in.Observed.Sandboxes, began)
			}
		}, Deadline: deadline},
		Published: func(pod *v1.Pod, status v1.PodStatus) {
			if status.Reason == Reason && !told.Get(pod.UID) {
				told.Set(pod.UID, true)
				h.Event(pod, v1.EventTypeNormal, Reason, status.Message)
			}
		},
		Ended: func(pod *v1.Pod) { told.Drop(pod.UID) },
	}
}

// deadline implements podsync.Hook.Deadline.
func deadline(pod *v1.Pod, status *v1.PodStatus) (d podsync.Deadline, ok bool) {
	start := status.StartTime
	if start.IsZero() {
		start = pod.Status.StartTime
	}
	if pod.Spec.ActiveDeadlineSeconds == nil || start.IsZero() {
		return d, false
	}
	return podsync.Deadline{
		At:      start.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second),
		Reason:  Reason,
		Message: "Pod was active on the node longer than the specified deadline",
	}, true
}

// firstStart returns the creation time of the oldest sandbox of an earlier agent, or nil without a
// sandbox. No other record has the start time of a static pod.
func firstStart(sandboxes []runtime.SandboxStatus, began time.Time) *metav1.Time {
	var first time.Time
	for i := range sandboxes {
		if at := sandboxes[i].CreatedAt; !at.IsZero() && !at.After(began) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return nil
	}
	return &metav1.Time{Time: first}
}
