// SPDX-License-Identifier: Apache-2.0

// Package pace sets the garbage collection and the number of processors of a program that simulates
// agents. The settings are those of the whole process, and so only programs and benchmarks use pace.
package pace

import (
	"math"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/internal/garbage"
)

const (
	// room is the memory that Go may use for the heap, stacks and itself, in bytes. The heap in it has huge pages.
	room = 960 << 20
	// most bounds the growth of a small heap, in percent, and least is the growth of a heap for which room is too small.
	most, least = 2000, 50
	// look is the time between two looks at what is live.
	look = 50 * time.Millisecond
)

// Set trades memory for processor time until restore is called. Garbage stays until the process has 960 MiB. If half of
// that is live, garbage stays until the heap has grown by half. On Linux the first 960 MiB of the heap have huge pages,
// also after restore. The process uses a single processor: most of the time one goroutine of a simulation runs, and a
// second processor would only look for work. The variables GOGC, GOMEMLIMIT and GOMAXPROCS of the environment have
// precedence.
func Set() (restore func()) {
	restoreHeap, restoreProcessors := func() {}, func() {}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		restoreHeap = follow()
	}
	if os.Getenv("GOMAXPROCS") == "" {
		before := goruntime.GOMAXPROCS(1)
		restoreProcessors = func() { goruntime.GOMAXPROCS(before) }
	}
	return func() {
		restoreHeap()
		restoreProcessors()
	}
}

// advise gives the heap huge pages.
var advise = sync.OnceFunc(func() {
	adviseHugePages(room)
	goruntime.GC()
})

// follow sets the growth of the heap by what is live, until restore is called.
func follow() (restore func()) {
	advise()
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(-1)
	set()
	stop := make(chan struct{})
	var looks sync.WaitGroup
	looks.Go(func() {
		tick := time.NewTicker(look)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				set()
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		looks.Wait()
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

func set() {
	if 2*garbage.Live()+garbage.Fixed() < room {
		debug.SetMemoryLimit(room)
		debug.SetGCPercent(most)
		return
	}
	debug.SetGCPercent(least)
	debug.SetMemoryLimit(math.MaxInt64)
}
