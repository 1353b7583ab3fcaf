// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/clientkit"
)

func TestCallersThatComeTogetherShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights[string, int]
		var requests atomic.Int64
		slow := func(context.Context) (int, error) {
			time.Sleep(time.Second)
			return int(requests.Add(1)), nil
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				got, err := f.do(t.Context(), "a", slow)
				assert.NoError(t, err)
				assert.Equal(t, 1, got)
			})
		}
		all.Wait()
		got, err := f.do(t.Context(), "a", slow)
		require.NoError(t, err)
		assert.Equal(t, 2, got, "later callers get a later answer")
		assert.Empty(t, f.now)
	})
}

func TestErrorsAreSharedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights[string, int]
		why := errors.New("why")
		go func() {
			_, err := f.do(t.Context(), "a", func(context.Context) (int, error) { time.Sleep(time.Second); return 0, why })
			assert.ErrorIs(t, err, why)
		}()
		synctest.Wait()
		_, err := f.do(t.Context(), "a", func(context.Context) (int, error) { return 0, errors.New("not asked") })
		require.ErrorIs(t, err, why)
		synctest.Wait()
	})
}

// The end of one caller's ctx does not fail the other callers.
func TestACallerThatLeavesTakesNobodyAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights[string, int]
		wait := func(ctx context.Context) (int, error) {
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(time.Minute):
				return 7, nil
			}
		}
		leaves, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			_, err := f.do(leaves, "a", wait)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}()
		synctest.Wait()
		impatient, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, clientkit.ErrAtOnce)
		defer cancel()
		_, err := f.do(impatient, "a", wait)
		require.ErrorIs(t, err, clientkit.ErrAtOnce)
		begun := time.Now()
		got, err := f.do(t.Context(), "a", wait)
		require.NoError(t, err)
		assert.Equal(t, 7, got)
		assert.Equal(t, time.Minute+time.Second-time.Millisecond, time.Since(begun))
	})
}
