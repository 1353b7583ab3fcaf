// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime/fake"
)

// callsOfLife is how many more calls may be made for each manifest that a source gives a pod in that second.
const callsOfLife = 40

// mostCalls is the maximum number of calls to the runtime for a pod in a second. An edit of a pod
// with several containers, or its return after a reboot, makes about thirty calls at a single
// instant, if calls take no time.
const mostCalls = 100

// rates checks that no loop calls the runtime without pauses. Cancelled calls count, too.
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
		most := mostCalls
		for _, s := range c.wanted[e.UID] {
			if s.from >= calls[0] && s.from <= e.At {
				most += callsOfLife
			}
		}
		if len(calls) > most {
			told[e.UID] = true
			c.violate(e.At, "more than %d calls to the runtime for %s in a second, %s the last", most, e.UID, e.Op)
		}
	}
}

// hurried is the number of calls to the runtime for a pod in a second after which each call takes a second. Without that,
// time would stand still in an agent that calls without pauses, and rates would never judge it.
const hurried = 5 * mostCalls

// slowed returns latency until an agent hurries. The function returned is for one node.
func slowed(latency func(fake.Call) time.Duration) func(fake.Call) time.Duration {
	var mu sync.Mutex
	var second time.Time
	var calls map[types.UID]int
	hasty := false
	return func(c fake.Call) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now().Truncate(time.Second); now != second {
			second, calls = now, make(map[types.UID]int)
		}
		if calls[c.UID]++; c.UID != "" && calls[c.UID] > hurried {
			hasty = true
		}
		if hasty {
			return time.Second
		}
		return latency(c)
	}
}
