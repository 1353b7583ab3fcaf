// SPDX-License-Identifier: Apache-2.0

package bigstack_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/keelson-dev/keelson/internal/bigstack"
)

// TestGrow compares the stacks of waiting goroutines with and without Grow.
func TestGrow(t *testing.T) {
	const goroutines = 200
	stacks := func(begin func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		end := make(chan struct{})
		var began, ended sync.WaitGroup
		began.Add(goroutines)
		for range goroutines {
			ended.Go(func() {
				begin()
				began.Done()
				<-end
			})
		}
		began.Wait()
		runtime.ReadMemStats(&after)
		close(end)
		ended.Wait()
		return (after.StackInuse - before.StackInuse) / goroutines
	}
	assert.Greater(t, stacks(bigstack.Grow), uint64(12<<10))
	assert.Zero(t, testing.AllocsPerRun(100, bigstack.Grow))
}
