// SPDX-License-Identifier: Apache-2.0

package keyed

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOneAtATimePerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns[string]
		inside := map[string]int{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		begin := time.Now()
		for i := range 20 {
			wg.Go(func() {
				key := []string{"a", "b"}[i%2]
				back, err := turns.Take(t.Context(), key)
				assert.NoError(t, err)
				mu.Lock()
				inside[key]++
				assert.Equal(t, 1, inside[key])
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				inside[key]--
				mu.Unlock()
				back()
			})
		}
		wg.Wait()
		assert.Equal(t, 10*time.Second, time.Since(begin), "two keys go on side by side")
		assert.Empty(t, turns.queue, "nothing is kept of a key that nobody uses")
	})
}

func TestWhoWaitsMayGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns[int]
		back, err := turns.Take(t.Context(), 1)
		require.NoError(t, err)
		why := errors.New("why")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, why)
		defer cancel()
		_, err = turns.Take(ctx, 1)
		require.ErrorIs(t, err, why)
		back()
		back, err = turns.Take(t.Context(), 1)
		require.NoError(t, err)
		back()
		assert.Empty(t, turns.queue)
	})
}
