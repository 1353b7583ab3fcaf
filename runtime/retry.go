// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"time"

	"github.com/keelson-dev/keelson/internal/retry"
)

// The delays between a failed call for a pod and the next call. The first delay is short, because many
// failures end by themselves: after a crash of the agent the runtime may still carry out the
// agent's last calls. The longest delay is the kubelet's.
const (
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
)

// callEnd is the way in which a call of SyncPod or KillPod ended.
type callEnd uint8

const (
	endDone   callEnd = iota // no work is left, or the work waits for a known time
	endLeft                  // work is left, and no step failed
	endCut                   // ctx ended
	endFailed                // a step failed
)

// again returns the time of the next call for a pod, and the new number of failed calls in a row.
// now is the end of the last call, and failures is the number of failed calls before. With the zero
// time, the next call follows a change of the pod.
func (e callEnd) again(failures int, now time.Time) (time.Time, int) {
	switch e {
	case endFailed:
		return now.Add(retry.Backoff(failures+1, firstRetry, lastRetry, 0)), failures + 1
	case endLeft, endCut:
		return now.Add(firstRetry), failures
	default:
		return time.Time{}, 0
	}
}
