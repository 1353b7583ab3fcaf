// SPDX-License-Identifier: Apache-2.0

package keylock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/keylock"
)

// Holders of one key never overlap, and holders of different keys do.
func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks keylock.Locks[string]
		var wg sync.WaitGroup
		turns := map[string]*int{"a": new(int), "b": new(int)}
		begun := time.Now()
		for range 10 {
			for _, key := range []string{"a", "b"} {
				wg.Go(func() {
					unlock, err := locks.Lock(t.Context(), key)
					assert.NoError(t, err)
					*turns[key]++ // the race detector sees two holders of a key
					time.Sleep(time.Second)
					unlock()
				})
			}
			synctest.Wait()
		}
		wg.Wait()
		assert.Equal(t, 10*time.Second, time.Since(begun))
		assert.Equal(t, []int{10, 10}, []int{*turns["a"], *turns["b"]})
	})
}

// A caller gives up with the end of its context, and the lock is still the holder's.
func TestLockEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks keylock.Locks[int]
		unlock, err := locks.Lock(t.Context(), 1)
		require.NoError(t, err)
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		_, err = locks.Lock(ctx, 1)
		require.ErrorIs(t, err, cause)
		unlock()
		unlock, err = locks.Lock(t.Context(), 1)
		require.NoError(t, err)
		unlock()
	})
}
