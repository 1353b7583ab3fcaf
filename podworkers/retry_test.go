// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRule6RetryDelay(t *testing.T) {
	now := time.Unix(1000, 0)
	in := func(d time.Duration) error { return RetryAfter(io.ErrUnexpectedEOF, now.Add(d)) }
	policy := retryPolicy{resync: time.Minute, backoff: 10 * time.Second, transient: time.Second}
	noResync := retryPolicy{resync: -1, backoff: 10 * time.Second, transient: time.Second}
	tests := []struct {
		name     string
		policy   retryPolicy
		err      error
		failures int
		want     time.Duration
		spread   spread
	}{
		{"success", policy, nil, 0, time.Minute, spreadJitter},
		{"success without resync", noResync, nil, 0, -1, spreadJitter},
		{"any error", policy, io.EOF, 1, 10 * time.Second, spreadJitter},
		{"transient", policy, fmt.Errorf("no network: %w", ErrTransient), 1, time.Second, spreadJitter},
		{"retry after", policy, in(7 * time.Second), 1, 7 * time.Second, spreadExact},
		{"retry after, wrapped", policy, fmt.Errorf("x: %w", in(7*time.Second)), 1, 7 * time.Second, spreadExact},
		{"transient wins over retry after", policy, errors.Join(in(7*time.Second), ErrTransient), 1, time.Second, spreadJitter},
		{"retry after wins over other errors", policy, errors.Join(io.EOF, in(7*time.Second)), 1, 7 * time.Second, spreadExact},
		{
			"the earliest of several", policy,
			errors.Join(in(30*time.Second), errors.Join(io.EOF, in(5*time.Second)), in(20*time.Second)), 1,
			5 * time.Second, spreadExact,
		},
		{"the earlier of nested ones", policy, RetryAfter(in(5*time.Second), now.Add(8*time.Second)), 1, 5 * time.Second, spreadExact},
		{"not later than the resync", policy, in(5 * time.Minute), 1, time.Minute, spreadExact},
		{"as late as it likes without resync", noResync, in(5 * time.Minute), 1, 5 * time.Minute, spreadExact},
		{"a past time retries at once", policy, in(-time.Hour), 1, 0, spreadExact},
		{"but not twice in a row", policy, in(-time.Hour), 2, time.Second, spreadExact},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			delay, spread := test.policy.after(test.err, test.failures, now)
			assert.Equal(t, test.want, delay)
			assert.Equal(t, test.spread, spread)
		})
	}
}

func TestRetryAfterIsAnError(t *testing.T) {
	require.NoError(t, RetryAfter(nil, time.Unix(1, 0)))
	err := RetryAfter(io.EOF, time.Unix(1, 0).UTC())
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, err, "EOF (retry after 1970-01-01T00:00:01Z)")
	_, ok := earliestRetry(nil)
	require.False(t, ok)
}

func TestDefaultJitterAddsUpToHalf(t *testing.T) {
	var distinct int
	last := time.Duration(-1)
	for range 1000 {
		d := addUpToHalf(10 * time.Second)
		require.GreaterOrEqual(t, d, 10*time.Second)
		require.Less(t, d, 15*time.Second)
		if d != last {
			distinct++
		}
		last = d
	}
	require.Greater(t, distinct, 900)
	require.Zero(t, addUpToHalf(0))
}
