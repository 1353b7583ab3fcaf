// SPDX-License-Identifier: Apache-2.0

package main

import (
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, works atomic.Int32
		r := &rests{after: 3 * time.Second}
		r.work = func() { works.Add(1) }
		r.rest = func() {
			calls.Add(1)
			r.collected() // the call collects garbage, too
		}
		r.begin()
		after := func(pause time.Duration, want int32, why string) {
			time.Sleep(pause)
			synctest.Wait()
			assert.Equal(t, want, calls.Load(), why)
		}
		after(2*time.Second, 0, "the start is work")
		r.collected()
		after(2*time.Second, 0, "a collection begins a new pause")
		after(time.Second, 1, "a pause of 3 s is a rest")
		after(time.Hour, 1, "a rest happens once")
		assert.EqualValues(t, 2, works.Load(), "the collections of a rest are no work")
		for range 5 {
			r.collected()
			after(time.Second, 1, "work goes on")
		}
		assert.EqualValues(t, 7, works.Load())
		after(2*time.Second, 2, "the work has ended")
	})
}

// TestRestFollowsACollection uses the garbage collector of Go.
func TestRestFollowsACollection(t *testing.T) {
	rested := make(chan struct{}, 100)
	r := &rests{after: time.Nanosecond, work: func() {}, rest: func() { rested <- struct{}{} }}
	r.start()
	<-rested
	for range 3 {
		goruntime.GC()
		<-rested
	}
}

func TestASmallHeapGrowsAtWork(t *testing.T) {
	for live := uint64(0); live < 64<<20; live += 1 << 19 {
		percent := uint64(percentOf(live))
		goal := max(live+live*percent/100, 4<<20*percent/100) // as package runtime/debug computes it
		assert.GreaterOrEqual(t, percent, uint64(leanPercent), "%d", live)
		assert.LessOrEqual(t, goal, max(workHeap, live+live*leanPercent/100), "%d: more than a heap at work needs", live)
		if live < workHeap {
			assert.GreaterOrEqual(t, goal, uint64(workHeap)*9/10, "%d: the heap is collected early", live)
		}
	}
}
