// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Grace periods that hold where a pod says nothing usable.
const (
	// unsetGracePeriod is for a pod that names none at all (its spec is gone).
	unsetGracePeriod = 2 * time.Second
	// MinGracePeriod is the least a container gets between the polite and the
	// hard signal. The kubelet's floor is 2 s, which makes a pod that asks for
	// 1 s take 2; ours honours what was asked.
	MinGracePeriod = 1 * time.Second
)

// GracePeriod is how long a container may take to end when it is killed for
// reason: a deletion's grace before the spec's, and for a probe's verdict the
// probe's own (KEP-2238), which may be longer than the pod's.
func GracePeriod(pod *v1.Pod, container *v1.Container, reason KillReason) time.Duration {
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
	return max(seconds, MinGracePeriod)
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

// inSeconds converts without overflow: a grace period of a century is as good
// as forever.
func inSeconds(n int64) time.Duration {
	const most = int64(100 * 365 * 24 * 3600)
	return time.Duration(min(max(n, 0), most)) * time.Second
}
