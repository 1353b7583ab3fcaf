// SPDX-License-Identifier: Apache-2.0

package podwatch

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/retry"
)

func TestBackoff(t *testing.T) {
	want := []time.Duration{800, 1600, 3200, 6400, 12800, 25600, 30000, 30000}
	for i, d := range want {
		require.Equal(t, d*time.Millisecond, retry.Backoff(i+1, firstBackoff, maxBackoff, 0))
		require.Equal(t, d*time.Millisecond*3/2, retry.Backoff(i+1, firstBackoff, maxBackoff, 0.5))
	}
	require.Equal(t, maxBackoff, retry.Backoff(1<<40, firstBackoff, maxBackoff, 0))
	require.Equal(t, firstBackoff, retry.Backoff(0, firstBackoff, maxBackoff, 0))
}

// A long round resets the backoff.
func TestRepeatForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var last time.Time
		var pauses []time.Duration
		rounds := 0
		repeat(ctx, rand.Float64, func(context.Context) {
			if rounds++; rounds > 1 {
				pauses = append(pauses, time.Since(last))
			}
			if rounds == 7 {
				time.Sleep(resetBackoff)
			}
			if rounds == 9 {
				cancel()
			}
			last = time.Now()
		})
		require.Len(t, pauses, 8)
		for i, least := range []time.Duration{800, 1600, 3200, 6400, 12800, 25600, 800, 1600} {
			require.GreaterOrEqual(t, pauses[i], least*time.Millisecond)
			require.Less(t, pauses[i], 2*least*time.Millisecond)
		}
		require.Equal(t, last, time.Now(), "no pause after the end")
	})
}
