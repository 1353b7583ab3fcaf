// SPDX-License-Identifier: Apache-2.0

package garbage_test

import (
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/garbage"
)

func TestAfterEach(t *testing.T) {
	told, calls := make(chan uint64, 10), 0
	garbage.AfterEach(func() bool {
		calls++
		told <- garbage.Cycles()
		return calls < 3
	})
	for last := uint64(0); len(told) < 3; {
		before := len(told)
		goruntime.GC()
		require.Eventually(t, func() bool { return len(told) > before }, 10*time.Second, time.Millisecond)
		require.Greater(t, garbage.Cycles(), last)
		last = garbage.Cycles()
	}
	goruntime.GC()
	time.Sleep(10 * time.Millisecond)
	assert.Len(t, told, 3, "f has returned false")
}

func TestLive(t *testing.T) {
	held := make([]byte, 64<<20)
	goruntime.GC()
	assert.Greater(t, garbage.Live(), uint64(64<<20))
	goruntime.KeepAlive(held)
}

func TestFixed(t *testing.T) {
	before := garbage.Fixed()
	deep := make(chan int)
	for range 1000 {
		go grow(200, deep)
	}
	for range 1000 {
		<-deep
	}
	assert.Greater(t, garbage.Fixed(), before+8<<20, "stacks")
	for range 1000 {
		<-deep
	}
}

// grow sends in the depth of so many calls, each with 100 bytes, and again afterwards.
func grow(depth int, deep chan int) (sum byte) {
	var frame [100]byte
	if depth == 0 {
		deep <- 0
		deep <- 0
		return 0
	}
	frame[depth%100] = grow(depth-1, deep)
	return frame[depth%100] + frame[0]
}

func TestPercentTo(t *testing.T) {
	const size, least, most = 384 << 20, 50, 2000
	for live, want := range map[uint64]int{
		0: most, 1 << 20: most, 64 << 20: 500, 192 << 20: 100, 256 << 20: least, 300 << 20: least, size: least, 4 * size: least,
	} {
		assert.Equal(t, want, garbage.PercentTo(size, live, least, most), live)
	}
}
