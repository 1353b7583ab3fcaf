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

// saveMemory trades processor time for memory until the process ends: garbage is collected early, and at
// each rest the system gets unused memory back. With GOGC in the environment, the user has decided, and
// saveMemory has no effect.
func saveMemory() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(20)
	atRests(restAfter, func() {
		debug.FreeOSMemory()
		releaseProgram()
	})
}

// atRests calls a function after each time without garbage collection, and not again because of the
// collections of the call itself.
func atRests(after time.Duration, call func()) {
	r := &rests{after: after, call: call}
	r.start()
	r.watch()
}

// rests calls a function at each rest, which is a pause of garbage collection.
type rests struct {
	after time.Duration
	call  func()

	mu    sync.Mutex
	timer *time.Timer
	last  time.Time // begin of the last call
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
	if time.Since(r.last) >= r.after {
		r.timer.Reset(r.after)
	}
}

func (r *rests) begin() {
	r.mu.Lock()
	r.last = time.Now()
	r.mu.Unlock()
	r.call()
}
