// SPDX-License-Identifier: Apache-2.0

// Package garbage watches the garbage collector of the process.
package garbage

import (
	goruntime "runtime"
	"runtime/metrics"
)

// AfterEach calls f shortly after each garbage collection, until f returns false. One call may stand for several
// collections. An object without a reference tells of a collection.
func AfterEach(f func() (again bool)) {
	goruntime.AddCleanup(new([1]func() bool), func(f func() bool) {
		if f() {
			AfterEach(f)
		}
	}, f)
}

// Live returns the size of the heap after the last collection, in bytes.
func Live() uint64 { return metric("/gc/heap/live:bytes") }

// Fixed returns the memory of Go beside the heap, such as stacks, in bytes.
func Fixed() (sum uint64) {
	for _, class := range []string{"heap/stacks", "metadata/mcache/inuse", "metadata/mspan/inuse", "metadata/other", "os-stacks", "other", "profiling/buckets"} {
		sum += metric("/memory/classes/" + class + ":bytes")
	}
	return sum
}

// Cycles returns the number of collections that have ended.
func Cycles() uint64 { return metric("/gc/cycles/total:gc-cycles") }

func metric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// PercentTo returns the percentage at which a heap with so many live bytes is collected at the size, in bytes,
// within the bounds least and most.
func PercentTo(size, live uint64, least, most int) int {
	if live >= size {
		return least
	}
	return min(max(int(100*(size-live)/max(live, 1)), least), most)
}
