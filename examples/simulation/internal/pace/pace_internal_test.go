// SPDX-License-Identifier: Apache-2.0

package pace

import (
	goruntime "runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// percent returns the present growth of the heap.
func percent() int {
	now := debug.SetGCPercent(-1)
	debug.SetGCPercent(now)
	return now
}

// The growth follows the live heap after each collection, up to restore. The environment has precedence.
func TestSet(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMAXPROCS", "")
	defer debug.SetGCPercent(debug.SetGCPercent(123))
	processors := goruntime.GOMAXPROCS(0)
	restore := Set()
	require.Equal(t, most, percent(), "almost nothing is live")
	require.Equal(t, 1, goruntime.GOMAXPROCS(0))
	held := make([]byte, 200<<20)
	require.Eventually(t, func() bool {
		goruntime.GC()
		return percent() < 100
	}, 20*time.Second, time.Millisecond)
	goruntime.KeepAlive(held)
	restore()
	require.Equal(t, 123, percent())
	require.Equal(t, processors, goruntime.GOMAXPROCS(0))
	for range 3 {
		goruntime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	require.Equal(t, 123, percent(), "also after later collections")

	t.Setenv("GOGC", "50")
	t.Setenv("GOMAXPROCS", "2")
	Set()()
	require.Equal(t, 123, percent())
	require.Equal(t, processors, goruntime.GOMAXPROCS(0))
}
