// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, Sleep(t.Context(), time.Minute))
		assert.Equal(t, time.Minute, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, Sleep(ctx, time.Minute), context.DeadlineExceeded)
		assert.Equal(t, time.Minute+time.Second, time.Since(began))
		require.ErrorIs(t, Sleep(ctx, 0), context.DeadlineExceeded, "a context that has ended")
		require.NoError(t, Sleep(t.Context(), -1))
	})
}

func TestBackoff(t *testing.T) {
	const first, longest = 800 * time.Millisecond, 30 * time.Second
	for n, want := range map[int]time.Duration{-1: first, 0: first, 1: first, 2: 2 * first, 3: 4 * first, 6: 25600 * time.Millisecond, 7: longest, 1000: longest} {
		assert.Equal(t, want, Backoff(n, first, longest, 0), n)
		assert.Equal(t, want+want/2, Backoff(n, first, longest, 0.5), n)
	}
}

func TestAddUpToHalf(t *testing.T) {
	var distinct int
	last := time.Duration(-1)
	for range 1000 {
		d := AddUpToHalf(10 * time.Second)
		require.GreaterOrEqual(t, d, 10*time.Second)
		require.Less(t, d, 15*time.Second)
		if d != last {
			distinct++
		}
		last = d
	}
	require.Greater(t, distinct, 900)
	require.Zero(t, AddUpToHalf(0))
}

func TestEarlier(t *testing.T) {
	one, two := time.Unix(1, 0), time.Unix(2, 0)
	require.Equal(t, one, Earlier(one, two))
	require.Equal(t, one, Earlier(two, one))
	require.Equal(t, one, Earlier(one, time.Time{}))
	require.Equal(t, one, Earlier(time.Time{}, one))
	require.Zero(t, Earlier(time.Time{}, time.Time{}))
}
