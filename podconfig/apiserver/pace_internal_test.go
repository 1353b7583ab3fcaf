// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoff(t *testing.T) {
	want := []time.Duration{800, 1600, 3200, 6400, 12800, 25600, 30000, 30000}
	for i, d := range want {
		require.Equal(t, d*time.Millisecond, backoff(i+1, 0))
		require.Equal(t, d*time.Millisecond*3/2, backoff(i+1, 0.5))
	}
	require.Equal(t, maxBackoff, backoff(1<<40, 0))
	require.Equal(t, firstBackoff, backoff(0, 0))
}

// A round that lasted begins the row anew.
func TestRepeatForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var last time.Time
		var pauses []time.Duration
		rounds := 0
		repeat(ctx, func(context.Context) {
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
