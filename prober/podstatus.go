// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// UpdatePodStatus sets Started and Ready of the container statuses of a pod, from its spec and from what was established
// about the instance that each status names:
//
//   - started: it runs, and has no startup probe or that has succeeded;
//   - ready: it is started, and has no readiness probe or the last result of that is success;
//   - a plain init container is ready once it has completed.
//
// Everything else becomes false. Statuses of ephemeral containers, and of containers that are not in the spec, are left
// alone. It writes to s only.
func (p *Prober) UpdatePodStatus(pod *v1.Pod, s *v1.PodStatus) {
	if pod == nil || s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, statuses := range [][]v1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses} {
		for i := range statuses {
			if c, where := find(pod, statuses[i].Name); where != placeNone {
				applyResults(&statuses[i], c, where, p.mu.result)
			}
		}
	}
}

// applyResults sets Started and Ready of one status.
func applyResults(s *v1.ContainerStatus, c *v1.Container, where place, result func(string, Type) (Result, bool)) {
	succeeded := func(kind Type) bool {
		r, _ := result(s.ContainerID, kind)
		return r == Success
	}
	started := s.State.Running != nil && (where == placePlainInit || c.StartupProbe == nil || succeeded(Startup))
	s.Started = &started
	if where == placePlainInit {
		s.Ready = s.State.Terminated != nil && completed(s.State.Terminated)
		return
	}
	s.Ready = started && (c.ReadinessProbe == nil || succeeded(Readiness))
}

// completed reports whether an init container did its work: one that the kernel stopped for its memory did not,
// whatever its exit code.
func completed(t *v1.ContainerStateTerminated) bool {
	return t.ExitCode == 0 && t.Reason != "OOMKilled"
}

// Running returns what runs according to status, for AddPod. What started before since, the time this agent began, is
// Adopted with what pod.Status, the last that was known, says of the same container ID. It never returns nil, unless
// status is.
func Running(pod *v1.Pod, status *v1.PodStatus, since time.Time) map[string]Instance {
	if pod == nil || status == nil {
		return nil
	}
	running := map[string]Instance{}
	for _, statuses := range [][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			if s.State.Running == nil || s.ContainerID == "" {
				continue
			}
			in := Instance{ID: s.ContainerID, StartedAt: s.State.Running.StartedAt.Time, PodIP: status.PodIP}
			if in.StartedAt.Before(since) {
				in.Adopted = true
				in.Started, in.Ready = lastKnown(&pod.Status, s)
			}
			running[s.Name] = in
		}
	}
	return running
}

// lastKnown is what the last status said of the instance that now names. One without an ID may be of any instance.
func lastKnown(last *v1.PodStatus, now *v1.ContainerStatus) (started, ready bool) {
	for _, statuses := range [][]v1.ContainerStatus{last.ContainerStatuses, last.InitContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			if s.Name == now.Name && (s.ContainerID == now.ContainerID || s.ContainerID == "") {
				return s.Started != nil && *s.Started, s.Ready
			}
		}
	}
	return false, false
}
