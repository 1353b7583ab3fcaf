// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	goruntime "runtime"
	"runtime/debug"
	gometrics "runtime/metrics"
	"sync"
	"time"
)

// restAfter is the time without a garbage collection after which the agent rests.
const restAfter = 3 * time.Second

const (
	leanPercent = 20       // of garbage, relative to the live heap, at a rest
	workHeap    = 10 << 20 // bytes
)

// saveMemory trades processor time for memory until the process ends: a heap of more than workHeap is
// collected early, and at each rest the system gets unused memory back. An agent at work lets a smaller heap
// grow to workHeap, because it would collect hundreds of times during the start of many pods. With GOGC in
// the environment, the user has decided, and saveMemory has no effect.
func saveMemory() {
	if os.Getenv("GOGC") != "" {
		return
	}
	r := &rests{after: restAfter, work: func() {
		live := []gometrics.Sample{{Name: "/gc/heap/live:bytes"}}
		gometrics.Read(live)
		debug.SetGCPercent(percentOf(live[0].Value.Uint64()))
	}, rest: func() {
		debug.SetGCPercent(leanPercent)
		debug.FreeOSMemory()
		releaseProgram()
	}}
	r.start()
}

// percentOf returns the percentage of garbage of an agent at work, whose heap has so many live bytes.
func percentOf(live uint64) int {
	const most = 100 * workHeap / (4 << 20) // the least heap of Go is 4 MiB at 100 percent
	if live >= workHeap {
		return leanPercent
	}
	return min(most, max(leanPercent, int(100*(workHeap-live)/max(live, 1))))
}

// rests calls work at the start and after each garbage collection, and rest at each rest, which is a time
// without garbage collection. The collections of rest itself are not work.
type rests struct {
	after      time.Duration
	work, rest func()

	mu    sync.Mutex
	timer *time.Timer
	last  time.Time // begin of the last rest
}

func (r *rests) start() {
	r.begin()
	r.watch()
}

// begin begins the first pause.
func (r *rests) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.work()
	r.timer = time.AfterFunc(r.after, r.pause)
}

// watch calls collected after each garbage collection, by an object without a reference.
func (r *rests) watch() {
	goruntime.AddCleanup(new([1]*rests), func(r *rests) {
		r.watch()
		r.collected()
	}, r)
}

// collected begins a new pause.
func (r *rests) collected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.last) >= r.after {
		r.work()
		r.timer.Reset(r.after)
	}
}

func (r *rests) pause() {
	r.mu.Lock()
	r.last = time.Now()
	r.mu.Unlock()
	r.rest()
}
