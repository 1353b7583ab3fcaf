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
	tests := []struct {
		name   string
		ending ending
		want   time.Duration
		spread spread
	}{
		{"success", ending{}, time.Minute, spreadJitter},
		{"success of a pod that rests", ending{rests: true}, time.Hour, spreadJitter},
		{"a pod that rests, again", ending{rests: true, again: now.Add(time.Second)}, time.Second, spreadExact},
		{"a pod that rests, any error", ending{rests: true, err: io.EOF}, 10 * time.Second, spreadJitter},
		{"any error", ending{err: io.EOF}, 10 * time.Second, spreadJitter},
		{"transient", ending{err: fmt.Errorf("no network: %w", ErrTransient)}, time.Second, spreadJitter},
		{"retry after", ending{err: in(7 * time.Second)}, 7 * time.Second, spreadExact},
		{"retry after, wrapped", ending{err: fmt.Errorf("x: %w", in(7*time.Second))}, 7 * time.Second, spreadExact},
		{"transient wins over retry after", ending{err: errors.Join(in(7*time.Second), ErrTransient)}, time.Second, spreadJitter},
		{"retry after wins over other errors", ending{err: errors.Join(io.EOF, in(7*time.Second))}, 7 * time.Second, spreadExact},
		{
			"the earliest of several",
			ending{err: errors.Join(in(30*time.Second), errors.Join(io.EOF, in(5*time.Second)), in(20*time.Second))},
			5 * time.Second, spreadExact,
		},
		{"the earlier of nested ones", ending{err: RetryAfter(in(5*time.Second), now.Add(8*time.Second))}, 5 * time.Second, spreadExact},
		{"not later than the resync", ending{err: in(5 * time.Minute)}, time.Minute, spreadExact},
		{"a past time retries at once", ending{err: in(-time.Hour)}, 0, spreadExact},
		{"success, again", ending{again: now.Add(7 * time.Second)}, 7 * time.Second, spreadExact},
		{"success, again after the resync", ending{again: now.Add(time.Hour)}, time.Minute, spreadExact},
		{"success, again at once", ending{again: now}, 0, spreadExact},
		{"success, again at once twice in a row", ending{again: now, hasty: true}, time.Second, spreadExact},
		{"success, again later after at once", ending{again: now.Add(2 * time.Second), hasty: true}, 2 * time.Second, spreadExact},
		{"an error ignores again", ending{err: io.EOF, again: now}, 10 * time.Second, spreadJitter},
		{"but not twice in a row", ending{err: in(-time.Hour), hasty: true}, time.Second, spreadExact},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := test.ending.pause(now)
			assert.Equal(t, test.want, p.delay)
			assert.Equal(t, test.spread, p.spread)
		})
	}
}

func TestRetryAfterIsAnError(t *testing.T) {
	require.NoError(t, RetryAfter(nil, time.Unix(1, 0)))
	err := RetryAfter(io.EOF, time.Unix(1, 0).UTC())
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, err, "EOF")
	_, ok := earliestRetry(nil)
	require.False(t, ok)
}
