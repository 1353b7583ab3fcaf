// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

// Run goes on when a source fails, and the source is run again later and later.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := podconfig.NewStore(podconfig.StoreOptions{})
		require.NoError(t, err)
		var starts []time.Duration
		began := time.Now()
		source := podconfig.SourceFunc("bus", func(ctx context.Context, out podconfig.Sink) error {
			starts = append(starts, time.Since(began))
			switch len(starts) {
			case 1, 2:
				return errors.New("no route")
			case 3:
				return nil
			}
			if err := out.Submit(ctx, podconfig.Snapshot()); err != nil {
				return err
			}
			if len(starts) == 4 {
				time.Sleep(6 * time.Minute)
				return errors.New("later")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		var problems []error
		source = podconfig.Retry(source, func(err error, _ time.Duration) { problems = append(problems, err) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, podconfig.Run(ctx, store, func(context.Context, podconfig.Update) error { return nil }, source))
		require.Len(t, starts, 5)
		for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			took := starts[i+1] - starts[i]
			require.True(t, took >= wait && took < 2*wait, "wait %d: %s", i, took)
		}
		require.Less(t, starts[4]-starts[3], 6*time.Minute+2*time.Second, "after a long run the waits begin anew")
		require.Len(t, problems, 6)
		require.EqualError(t, problems[0], "no route")
		require.ErrorIs(t, problems[2], podconfig.ErrSourceEnded)
		require.NoError(t, problems[3], "a change was accepted")
		require.EqualError(t, problems[4], "later")
		require.NoError(t, problems[5])
	})
}

// The waits grow up to 5 min, and begin anew after a run of more than 5 min. The end of ctx ends a
// wait.
func TestRetryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lasts := []time.Duration{0, 0, 0, 5 * time.Minute, 5*time.Minute + 1, 0}
		runs := 0
		source := podconfig.SourceFunc("file", func(context.Context, podconfig.Sink) error {
			time.Sleep(lasts[min(runs, len(lasts)-1)])
			runs++
			return errors.New("broken")
		})
		var waits []time.Duration
		source = podconfig.Retry(source, func(_ error, again time.Duration) { waits = append(waits, again) })
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		require.ErrorIs(t, source.Run(ctx, nil), context.DeadlineExceeded)
		for i, least := range []time.Duration{1, 2, 4, 8, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
			assert.GreaterOrEqual(t, waits[i], least*time.Second, "wait %d", i)
			assert.LessOrEqual(t, waits[i], 2*least*time.Second, "wait %d", i)
		}
		assert.Equal(t, runs, len(waits), "no run follows a wait that ctx has ended")
	})
}

func TestRetryWithoutAListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		source := podconfig.Retry(podconfig.SourceFunc("file", func(context.Context, podconfig.Sink) error { runs++; return nil }), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, source.Run(ctx, nil), context.DeadlineExceeded)
		assert.Greater(t, runs, 3)
	})
}

// Problem is told of the end of a failure once, by the first accepted change. The source learns the
// errors of its submissions.
func TestRetryTellsTheEndOfAFailureOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type told struct {
			err  error
			wait time.Duration
		}
		var problems []told
		broken := errors.New("broken")
		runs := 0
		source := podconfig.SourceFunc("file", func(ctx context.Context, out podconfig.Sink) error {
			runs++
			if runs == 1 {
				assert.NoError(t, out.Submit(ctx, podconfig.Snapshot()))
				assert.Empty(t, problems, "nothing has failed")
				return broken
			}
			assert.ErrorIs(t, out.Submit(ctx, podconfig.Change{}), podconfig.ErrUnknownChange)
			assert.Len(t, problems, 1, "a refused change ends no failure")
			for range 3 {
				assert.NoError(t, out.Submit(ctx, podconfig.Snapshot()))
			}
			<-ctx.Done()
			return ctx.Err()
		})
		source = podconfig.Retry(source, func(err error, again time.Duration) { problems = append(problems, told{err, again}) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, podconfig.Run(ctx, newStore(t, podconfig.StoreOptions{}), (&collector{}).take, source))
		require.Len(t, problems, 2)
		assert.ErrorIs(t, problems[0].err, broken)
		assert.Equal(t, told{}, problems[1])
	})
}

// An error at the end of ctx is the source's result, and not repeated.
func TestRetryReturnsTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := podconfig.SourceFunc("file", func(ctx context.Context, _ podconfig.Sink) error {
			<-ctx.Done()
			return errors.New("cannot clean up")
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := podconfig.Run(ctx, newStore(t, podconfig.StoreOptions{}), (&collector{}).take, podconfig.Retry(source, nil))
		require.EqualError(t, err, `podconfig: source "file": cannot clean up`)
	})
}
