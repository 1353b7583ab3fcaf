// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// minGracePeriodSeconds is the shortest grace period a syncer is given. An explicit 0 means "now",
// which for a container is one second between SIGTERM and SIGKILL.
const minGracePeriodSeconds int64 = 1

// gracePeriod returns the grace period of a terminating pod in seconds. current is the decided
// grace period, or 0 before a decision; a decided grace period is at least minGracePeriodSeconds.
// override is the grace period of a kill or nil. pod may be nil.
//
// Invariant: a decided grace period never grows. Only explicit values (the API's deletion grace
// period, the override of a kill) shorten it; spec.terminationGracePeriodSeconds, or its API
// default of 30, counts only while nothing is decided.
func gracePeriod(current int64, pod *v1.Pod, override *int64) int64 {
	if pod != nil {
		current = shortenGrace(current, pod.DeletionGracePeriodSeconds)
	}
	current = shortenGrace(current, override)
	switch {
	case current != 0:
		return current
	case pod == nil:
		return minGracePeriodSeconds
	}
	return max(podfacts.GracePeriodSeconds(pod), minGracePeriodSeconds)
}

// shortenGrace returns the shorter of the decided and the explicit grace period. Either may be
// missing.
func shortenGrace(current int64, explicit *int64) int64 {
	if explicit == nil {
		return current
	}
	value := max(*explicit, minGracePeriodSeconds)
	if current == 0 {
		return value
	}
	return min(current, value)
}
