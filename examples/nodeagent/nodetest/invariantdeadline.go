// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// reasonDeadline is the kubelet's reason of a pod that has exceeded its deadline.
const reasonDeadline = "DeadlineExceeded"

// deadlines checks that no pod exceeds a deadline before the shortest deadline of its manifests has
// passed since the first submission of the pod to an agent. The start time has whole seconds.
func (c *checker) deadlines() {
	manifests := c.manifests()
	for _, s := range c.h.Statuses {
		if s.Status.Reason != reasonDeadline || len(c.wanted[s.Pod.UID]) == 0 {
			continue
		}
		shortest := forever
		for _, pod := range manifests[s.Pod.UID] {
			if d := pod.Spec.ActiveDeadlineSeconds; d != nil {
				shortest = min(shortest, time.Duration(*d)*time.Second)
			}
		}
		switch first := c.wanted[s.Pod.UID][0].from; {
		case shortest == forever:
			c.violate(s.At, "%s (%s) is %s, and has no deadline", s.Pod.Name, s.Pod.UID, reasonDeadline)
		case s.At-first < shortest-time.Second:
			c.violate(s.At, "%s (%s) is %s after %v, and its deadline is %v", s.Pod.Name, s.Pod.UID, reasonDeadline, s.At-first, shortest)
		}
	}
}

// inTime checks that a settled pod that has not ended has exceeded its deadline at most by the time
// that its end takes.
func inTime(pod *v1.Pod, status *v1.PodStatus, now time.Time) error {
	if pod.Spec.ActiveDeadlineSeconds == nil || status.StartTime == nil {
		return nil
	}
	allowed := time.Duration(*pod.Spec.ActiveDeadlineSeconds)*time.Second + time.Minute
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		allowed += time.Duration(*grace) * time.Second
	}
	if active := now.Sub(status.StartTime.Time); active > allowed {
		return fmt.Errorf("it has been active for %v, and its deadline is %d s", active, *pod.Spec.ActiveDeadlineSeconds)
	}
	return nil
}

// resized checks that running containers of a settled pod have the cpu and memory of the pod's
// spec, according to the runtime and to the status, and no resize is pending.
func resized(pod *v1.Pod, status *v1.PodStatus, truth *runtime.PodStatus) error {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		in, shown := truth.Active(c.Name), containerStatus(status, c.Name)
		if in == nil || in.State != runtime.StateRunning || shown == nil || shown.State.Running == nil {
			continue
		}
		if (in.Image != c.Image || c.LivenessProbe != nil || c.StartupProbe != nil) && waitsForSidecar(pod, c, truth) {
			return nil // the container is restarted with the new resources, once the sidecar is up
		}
		for _, n := range needs[:2] {
			want, request := amountOf(c.Resources.Limits, n.name), amountOf(c.Resources.Requests, n.name)
			if want == 0 {
				continue
			}
			if in.Resources == nil || amountOf(in.Resources.Limits, n.name) != want {
				return fmt.Errorf("container %s is to have %d of %s, and the runtime gives it %v", c.Name, want, n.name, in.Resources)
			}
			if shown.Resources == nil || amountOf(shown.Resources.Limits, n.name) != want || amountOf(shown.Resources.Requests, n.name) != request || amountOf(shown.AllocatedResources, n.name) != request {
				return fmt.Errorf("container %s has %d to %d of %s, and is published with %v", c.Name, request, want, n.name, shown.Resources)
			}
		}
	}
	for _, c := range status.Conditions {
		if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
			return fmt.Errorf("condition %s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return nil
}
