// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"math"
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

// limit returns the present limit of memory.
func limit() int64 { return debug.SetMemoryLimit(-1) }

// The growth follows the live heap up to restore. The environment has precedence.
func TestSet(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS"} {
		t.Setenv(name, "")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(123))
	processors, before := goruntime.GOMAXPROCS(0), limit()
	restore := Set()
	require.Equal(t, most, percent(), "little is live")
	require.EqualValues(t, room, limit())
	require.Equal(t, 1, goruntime.GOMAXPROCS(0))
	held := make([]byte, room/2)
	require.Eventually(t, func() bool {
		goruntime.GC()
		return limit() == math.MaxInt64 && percent() == least
	}, 20*time.Second, time.Millisecond, "half of the room is live")
	goruntime.KeepAlive(held)
	require.Eventually(t, func() bool {
		goruntime.GC()
		return limit() == room && percent() == most
	}, 20*time.Second, time.Millisecond, "little is live again")
	restore()
	require.Equal(t, 123, percent())
	require.Equal(t, before, limit())
	require.Equal(t, processors, goruntime.GOMAXPROCS(0))

	t.Setenv("GOMEMLIMIT", "3GiB")
	t.Setenv("GOMAXPROCS", "2")
	Set()()
	require.Equal(t, 123, percent())
	require.Equal(t, before, limit())
	require.Equal(t, processors, goruntime.GOMAXPROCS(0))
}
