// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// mostCalls is how many calls to the runtime may be made for one pod in one second.
// When a pod of several containers is edited, or comes back after a reboot, and no
// call takes any time, there are some thirty at one instant.
const mostCalls = 100

// rates: nobody asks the runtime again and again. What is cancelled at once counts,
// too.
func (c *checker) rates() {
	recent, told := make(map[types.UID][]time.Duration), make(map[types.UID]bool)
	for _, e := range c.h.Calls {
		if e.UID == "" || told[e.UID] {
			continue
		}
		calls := append(recent[e.UID], e.At)
		for e.At-calls[0] > time.Second {
			calls = calls[1:]
		}
		recent[e.UID] = calls
		if len(calls) > mostCalls {
			told[e.UID] = true
			c.violate(e.At, "more than %d calls to the runtime for %s in a second, %s the last", mostCalls, e.UID, e.Op)
		}
	}
}
