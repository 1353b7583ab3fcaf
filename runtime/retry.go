// SPDX-License-Identifier: Apache-2.0

package runtime

import "time"

// retryDelay is how long after a call for a pod that failed the next is worth a try:
// failures counts such calls in a row, this one included. It is short at first, since much
// passes by itself (after a crash of the agent the runtime may still be at work on what
// that had asked for), and then the kubelet's.
func retryDelay(failures int) time.Duration {
	return min(firstRetry<<min(failures-1, 10), lastRetry)
}

const (
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
)

// callEnd is how a call of SyncPod or KillPod has ended.
type callEnd uint8

const (
	endDone   callEnd = iota // nothing is left to do, or has to wait for a time that is known
	endLeft                  // something is left to do, and nothing failed
	endCut                   // ctx ended
	endFailed                // something failed
)

// again decides when the next call is due for a pod whose call ended at now like this,
// after so many failed calls in a row, and counts on. The zero time: when the pod changes.
func (e callEnd) again(failures int, now time.Time) (time.Time, int) {
	switch e {
	case endFailed:
		return now.Add(retryDelay(failures + 1)), failures + 1
	case endLeft, endCut:
		return now.Add(firstRetry), failures
	default:
		return time.Time{}, 0
	}
}
