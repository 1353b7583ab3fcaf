// SPDX-License-Identifier: Apache-2.0

// Package pace sets the garbage collection and the number of processors of a program that simulates
// agents. The settings are those of the whole process, and so only programs and benchmarks use pace.
package pace

import (
	"os"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/keelson-dev/keelson/internal/garbage"
)

const (
	// heap is the size up to which garbage may stay, in bytes.
	heap = 384 << 20
	// least is the growth of a larger heap between two collections, in percent.
	least = 50
	// most bounds the growth of a small heap, in percent.
	most = 2000
)

// room is the part of the heap with huge pages, in bytes.
const room = 1 << 30

// Set trades memory for processor time until restore is called. The heap grows to 384 MiB, or by half of
// what is live, before garbage is collected. On Linux the first GiB of the heap has huge pages, also after
// restore. The process uses a single processor: most of the time one
// goroutine of a simulation runs, and a second processor would only look for work. The variables GOGC and
// GOMAXPROCS of the environment have precedence.
func Set() (restore func()) {
	restoreHeap, restoreProcessors := func() {}, func() {}
	if os.Getenv("GOGC") == "" {
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

// follow sets the growth of the heap now and after each collection, until restore is called.
func follow() (restore func()) {
	advise()
	set := func() int { return debug.SetGCPercent(garbage.PercentTo(heap, garbage.Live(), least, most)) }
	before := set()
	var over atomic.Bool
	garbage.AfterEach(func() (again bool) {
		if over.Load() {
			return false
		}
		set()
		return true
	})
	return func() {
		over.Store(true)
		debug.SetGCPercent(before)
	}
}
