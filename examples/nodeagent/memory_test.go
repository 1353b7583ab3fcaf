// SPDX-License-Identifier: Apache-2.0

package main

import (
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/keelson-dev/keelson/internal/garbage"
)

func TestRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, works, tidied atomic.Int32
		var cycles atomic.Uint64
		r := &rests{after: 3 * time.Second, again: time.Minute, cycles: cycles.Load, tidy: func() { tidied.Add(1) }}
		defer func() { r.timer.Stop() }()
		collect := func() {
			cycles.Add(1)
			r.collected()
		}
		r.work = func() { works.Add(1) }
		r.rest = func() {
			calls.Add(1)
			cycles.Add(2)
			r.collected()    // a collection of the rest is told at once,
			go r.collected() // or later
		}
		r.begin()
		after := func(pause time.Duration, want int32, why string) {
			time.Sleep(pause)
			synctest.Wait()
			assert.Equal(t, want, calls.Load(), why)
		}
		after(2*time.Second, 0, "the start is work")
		collect()
		after(2*time.Second, 0, "a collection begins a new pause")
		after(time.Second, 1, "a pause of 3 s is a rest")
		assert.Zero(t, tidied.Load())
		after(time.Hour+time.Second, 1, "a rest happens once")
		assert.EqualValues(t, 60, tidied.Load(), "the program is read again without a collection")
		assert.EqualValues(t, 2, works.Load(), "the collections of a rest are no work")
		for range 5 {
			collect()
			after(time.Second, 1, "work goes on")
		}
		assert.EqualValues(t, 7, works.Load())
		after(2*time.Second, 2, "the work has ended")
		collect()
		assert.EqualValues(t, 8, works.Load(), "work may begin at once after a rest")
	})
}

// TestRestFollowsACollection uses the garbage collector of Go.
func TestRestFollowsACollection(t *testing.T) {
	rested := make(chan struct{}, 1)
	r := &rests{after: time.Nanosecond, again: time.Hour, tidy: func() {}, cycles: garbage.Cycles, work: func() {}, rest: func() { tell(rested) }}
	startFor(t, r)
	<-rested
	for range 3 {
		goruntime.GC()
		<-rested
	}
}

// TestARestIsNoWork uses the garbage collector of Go.
func TestARestIsNoWork(t *testing.T) {
	rested := make(chan struct{}, 1)
	r := &rests{after: time.Millisecond, again: time.Hour, tidy: func() {}, cycles: garbage.Cycles, work: func() {}, rest: func() {
		goruntime.GC()
		tell(rested)
	}}
	startFor(t, r)
	goruntime.GC()
	<-rested
	for range 100 { // the garbage collector may run for another reason
		select {
		case <-rested:
			continue
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
	t.Error("each rest causes another one")
}

// startFor starts rests until the end of the test.
func startFor(t *testing.T, r *rests) {
	r.begin()
	garbage.AfterEach(func() (again bool) { return t.Context().Err() == nil && r.collected() })
}

// tell never waits: a rest may come after the end of the test.
func tell(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

func TestASmallHeapGrowsAtWork(t *testing.T) {
	for live := uint64(0); live < 64<<20; live += 1 << 19 {
		percent := uint64(percentOf(live, leanPercent, time.Hour))
		goal := max(live+live*percent/100, 4<<20*percent/100) // as package runtime/debug computes it
		assert.GreaterOrEqual(t, percent, uint64(leanPercent), "%d", live)
		assert.LessOrEqual(t, goal, max(workHeap, live+live*leanPercent/100), "%d: more than a heap at work needs", live)
		if live < workHeap {
			assert.GreaterOrEqual(t, goal, uint64(workHeap)*9/10, "%d: the heap is collected early", live)
		}
	}
}

func TestABurstGetsMoreGarbage(t *testing.T) {
	const live, often, seldom = 2 * workHeap, burstPause - 1, 4 * burstPause
	percent := percentOf(live, leanPercent, often)
	assert.Equal(t, burstPercent, percent)
	assert.Equal(t, percent, percentOf(live, percent, burstPause), "the burst goes on, because of the percentage")
	assert.Equal(t, leanPercent, percentOf(live, percent, seldom), "the burst is over")
	assert.Equal(t, burstPercent, percentOf(workHeap*9/10, leanPercent, often), "a small heap, too")
	small := percentOf(workHeap/4, leanPercent, seldom)
	assert.Greater(t, small, burstPercent)
	assert.Equal(t, burstPercent, percentOf(live, small, burstPause), "the heap has grown")
}
