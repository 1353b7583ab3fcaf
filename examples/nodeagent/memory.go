// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"time"
)

// restAfter is the time without a garbage collection after which the agent rests.
const restAfter = 3 * time.Second

// The garbage of an agent that rests, and of one that works, in percent of its other memory. Collections
// at 20 percent cost a fifth of the processor time for the start of 1,000 pods.
const garbageAtRest, garbageAtWork = 20, 25

// saveMemory trades processor time for memory until the process ends: at rest, garbage is collected
// early, and the system gets unused memory back. With GOGC in the environment, the user has decided, and
// saveMemory has no effect.
func saveMemory() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(garbageAtWork)
	atRests(restAfter, func() {
		debug.SetGCPercent(garbageAtRest)
		debug.FreeOSMemory()
		releaseProgram()
	}, func() { debug.SetGCPercent(garbageAtWork) })
}

// atRests calls rest after each time without garbage collection, and not again because of the
// collections of the call itself. After a rest, atRests calls work if two collections follow each other
// before the next rest.
func atRests(after time.Duration, rest, work func()) {
	r := &rests{after: after, rest: rest, work: work}
	r.start()
	r.watch()
}

// rests calls a function at each rest, which is a pause of garbage collection, and another one when the
// work goes on.
type rests struct {
	after      time.Duration
	rest, work func()

	mu          sync.Mutex
	timer       *time.Timer
	last        time.Time // begin of the last rest
	collections int       // since the last rest
}

func (r *rests) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(r.after, r.begin)
}

// watch calls end after each garbage collection, by an object without a reference.
func (r *rests) watch() {
	goruntime.AddCleanup(new([1]*rests), func(r *rests) {
		r.watch()
		r.end()
	}, r)
}

// end begins a new pause.
func (r *rests) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.last) < r.after {
		return
	}
	r.timer.Reset(r.after)
	if r.collections++; r.collections == 2 && !r.last.IsZero() {
		r.work()
	}
}

func (r *rests) begin() {
	r.mu.Lock()
	r.last, r.collections = time.Now(), 0
	r.mu.Unlock()
	r.rest()
}
