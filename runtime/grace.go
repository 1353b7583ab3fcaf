// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Grace periods for pods without a usable value.
const (
	// unsetGracePeriod is for a pod without any value, because its spec is unknown.
	unsetGracePeriod = 2 * time.Second
	// minGracePeriod is the minimal time between the stop signal and SIGKILL. The kubelet's minimum
	// is 2 s, so a pod with a grace period of 1 s gets 2 s there and 1 s here.
	minGracePeriod = 1 * time.Second
)

// gracePeriod returns the time that a container has to end when it is killed for reason. The grace
// period of a deletion has precedence over the spec's. After a failed probe the probe's own grace
// period applies (KEP-2238), which may be longer than the pod's.
func gracePeriod(pod *v1.Pod, container *v1.Container, reason KillReason) time.Duration {
	seconds := unsetGracePeriod
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		seconds = inSeconds(*pod.DeletionGracePeriodSeconds)
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = inSeconds(*pod.Spec.TerminationGracePeriodSeconds)
		if own := probeGrace(container, reason); own != nil {
			seconds = inSeconds(*own)
		}
	}
	return max(seconds, minGracePeriod)
}

func probeGrace(container *v1.Container, reason KillReason) *int64 {
	var probe *v1.Probe
	switch reason {
	case killStartupProbe:
		probe = container.StartupProbe
	case killLivenessProbe:
		probe = container.LivenessProbe
	}
	if probe == nil {
		return nil
	}
	return probe.TerminationGracePeriodSeconds
}

// inSeconds converts without overflow. Values are limited to a century.
func inSeconds(n int64) time.Duration {
	const most = int64(100 * 365 * 24 * 3600)
	return time.Duration(min(max(n, 0), most)) * time.Second
}

// GracePeriod returns the longest grace period of the running containers, as recorded at their
// creation, and at least one second. GracePeriod is for a pod whose spec is unknown.
func (s *PodStatus) GracePeriod() time.Duration {
	grace := minGracePeriod
	for _, c := range s.Running() {
		pod, container := restorePod(s, c)
		grace = max(grace, gracePeriod(pod, container, killPodTerminating))
	}
	return grace
}
