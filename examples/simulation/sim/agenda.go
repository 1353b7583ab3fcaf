// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// agenda is the plan of the simulation itself: submissions, faults, timers of controllers.
type agenda struct {
	items heap[item]
	seq   uint64
	quiet int // items that do not keep the simulation going
}

type item struct {
	at    time.Duration
	seq   uint64
	quiet bool
	do    func()
}

// len returns the number of items that keep the simulation going.
func (a *agenda) len() int { return a.items.len() - a.quiet }

// next returns the instant of the first item, or Never.
func (a *agenda) next() time.Duration {
	if a.items.len() == 0 {
		return Never
	}
	return a.items.top().at
}

// add plans a call. Calls of the same instant are in the order of add.
func (a *agenda) add(at time.Duration, do func()) { a.addQuiet(at, false, do) }

// addQuiet is add. A quiet item alone does not keep the simulation going.
func (a *agenda) addQuiet(at time.Duration, quiet bool, do func()) {
	if a.items.less == nil {
		a.items.less = func(x, y item) bool { return x.at < y.at || x.at == y.at && x.seq < y.seq }
	}
	a.seq++
	if quiet {
		a.quiet++
	}
	a.items.push(item{at, a.seq, quiet, do})
}

// run makes the first call.
func (a *agenda) run() {
	first := a.items.pop()
	if first.quiet {
		a.quiet--
	}
	first.do()
}
