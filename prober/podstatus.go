// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// UpdatePodStatus sets Started and Ready of the container statuses of a pod, from its spec and from
// the results of the instance in each status:
//
//   - started: the container runs, and has no startup probe or a successful startup probe;
//   - ready: the container is started, and has no readiness probe or its last readiness result is
//     success;
//   - a plain init container is ready after completion.
//
// Everything else becomes false. Statuses of ephemeral containers, and of containers outside the
// spec, stay unchanged. UpdatePodStatus writes to s only.
func (p *Prober) UpdatePodStatus(pod *v1.Pod, s *v1.PodStatus) {
	if pod == nil || s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for one := range podfacts.Statuses(s) {
		if c, where := find(pod, one.Name); where != placeNone {
			applyResults(one, c, where, p.mu.result)
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

// completed reports whether an init container succeeded. A container killed for memory did not
// succeed, whatever its exit code.
func completed(t *v1.ContainerStateTerminated) bool {
	return t.ExitCode == 0 && t.Reason != "OOMKilled"
}

// Running returns the running containers of status, for AddPod. Containers started before since,
// the start of the agent, are Adopted with the values of pod.Status, the last known status, for the
// same container ID. The result is never nil unless pod or status is nil.
func Running(pod *v1.Pod, status *v1.PodStatus, since time.Time) map[string]Instance {
	if pod == nil || status == nil {
		return nil
	}
	running := map[string]Instance{}
	for s := range podfacts.Statuses(status) {
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
	return running
}

// lastKnown returns Started and Ready of the last status for the instance in now. A last status
// without an ID may be of any instance.
func lastKnown(last *v1.PodStatus, now *v1.ContainerStatus) (started, ready bool) {
	for s := range podfacts.Statuses(last) {
		if s.Name == now.Name && (s.ContainerID == now.ContainerID || s.ContainerID == "") {
			return s.Started != nil && *s.Started, s.Ready
		}
	}
	return false, false
}
