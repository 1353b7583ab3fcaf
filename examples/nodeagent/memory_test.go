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
		var calls atomic.Int32
		r := &rests{after: 3 * time.Second}
		r.call = func() {
			calls.Add(1)
			r.end() // the call collects garbage, too
		}
		r.start()
		after := func(pause time.Duration, want int32, why string) {
			time.Sleep(pause)
			synctest.Wait()
			assert.Equal(t, want, calls.Load(), why)
		}
		after(2*time.Second, 0, "the start is work")
		r.end()
		after(2*time.Second, 0, "a collection begins a new pause")
		after(time.Second, 1, "a pause of 3 s is a rest")
		after(time.Hour, 1, "a rest happens once")
		for range 5 {
			r.end()
			after(time.Second, 1, "work goes on")
		}
		after(2*time.Second, 2, "the work has ended")
	})
}

// TestRestFollowsACollection uses the garbage collector of Go.
func TestRestFollowsACollection(t *testing.T) {
	rested := make(chan struct{}, 100)
	atRests(time.Nanosecond, func() { rested <- struct{}{} })
	<-rested
	for range 3 {
		goruntime.GC()
		<-rested
	}
}
