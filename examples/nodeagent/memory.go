// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/internal/garbage"
)

const (
	restAfter = 3 * time.Second  // without a garbage collection: the agent rests
	tidyAfter = 15 * time.Second // of rest, again and again
)

const (
	leanPercent  = 20       // of garbage, relative to the live heap, at a rest
	burstPercent = 40       // while many pods start or end
	workHeap     = 10 << 20 // bytes
	// Of two collections with a shorter pause, the second one is part of a burst.
	burstPause = 500 * time.Millisecond
)

// saveMemory trades processor time for memory until the process ends: a heap of more than workHeap is
// collected early, and at each rest the system gets unused memory back. An agent at work lets a smaller heap
// grow to workHeap, because it would collect hundreds of times during the start of many pods. A larger heap
// gets more garbage in a burst. With GOGC in the environment, the user has decided, and saveMemory has no
// effect.
func saveMemory() {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent, last := leanPercent, time.Time{}
	r := &rests{after: restAfter, again: tidyAfter, cycles: garbage.Cycles, work: func() {
		percent = percentOf(garbage.Live(), percent, time.Since(last))
		last = time.Now()
		debug.SetGCPercent(percent)
	}, rest: func() {
		debug.SetGCPercent(leanPercent)
		debug.FreeOSMemory()
		releaseProgram()
	}, tidy: releaseProgram}
	r.start()
}

// percentOf returns the percentage of garbage of an agent at work after a collection that has left so many live
// bytes. Before is the percentage until now, and pause is the time since the collection before.
func percentOf(live uint64, before int, pause time.Duration) int {
	const most = 100 * workHeap / (4 << 20) // the least heap of Go is 4 MiB at 100 percent
	least := garbage.PercentTo(workHeap, live, leanPercent, most)
	switch {
	case pause < burstPause:
		return max(least, burstPercent)
	case pause < 4*burstPause:
		return max(least, min(burstPercent, before))
	}
	return least
}

// rests calls work at the start and after each garbage collection, and rest at each rest, which is a time
// without garbage collection. The collections of rest itself are not work. Until the next collection, tidy
// is called periodically: little work needs no collection, but reads pages of the program.
type rests struct {
	after, again     time.Duration
	cycles           func() uint64 // the number of collections until now
	work, rest, tidy func()

	mu      sync.Mutex
	timer   *time.Timer
	resting bool   // rest or tidy is running
	rested  uint64 // cycles at the end of the last rest
}

func (r *rests) start() {
	r.begin()
	garbage.AfterEach(r.collected)
}

// begin begins the first pause.
func (r *rests) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.work()
	r.rested = math.MaxUint64 // never
	r.timer = time.AfterFunc(r.after, r.pause)
}

// collected begins a new pause, and is always to be called again.
func (r *rests) collected() (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.resting && r.cycles() != r.rested {
		r.work()
		r.timer.Reset(r.after)
	}
	return true
}

func (r *rests) pause() {
	first := r.open()
	if first {
		r.rest()
	} else {
		r.tidy()
	}
	r.close(first)
}

// open begins a pause, and reports whether it is the first one since a collection.
func (r *rests) open() (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resting = true
	return r.cycles() != r.rested
}

// close ends a pause, and begins the next one.
func (r *rests) close(rested bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resting = false; rested {
		r.rested = r.cycles()
	}
	r.timer.Reset(r.again)
}
