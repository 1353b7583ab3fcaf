// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
