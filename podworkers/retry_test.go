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

// ending is how a call ends, and whether the call before was hasty.
type ending struct {
	Outcome
	err   error
	hasty bool
}

func TestRule6RetryDelay(t *testing.T) {
	now := time.Unix(1000, 0)
	in := func(d time.Duration) error { return RetryAfter(io.ErrUnexpectedEOF, now.Add(d)) }
	tests := []struct {
		name   string
		ending ending
		want   time.Duration
		exact  bool
	}{
		{"success", ending{}, time.Minute, false},
		{"success of a pod that rests", ending{Outcome: Outcome{Rests: true}}, time.Hour, false},
		{"a pod that rests, again", ending{Outcome: Outcome{Rests: true, Again: now.Add(time.Second)}}, time.Second, true},
		{"a pod that rests, any error", ending{Outcome: Outcome{Rests: true}, err: io.EOF}, 10 * time.Second, false},
		{"any error", ending{err: io.EOF}, 10 * time.Second, false},
		{"transient", ending{err: fmt.Errorf("no network: %w", ErrTransient)}, time.Second, false},
		{"retry after", ending{err: in(7 * time.Second)}, 7 * time.Second, true},
		{"retry after, wrapped", ending{err: fmt.Errorf("x: %w", in(7*time.Second))}, 7 * time.Second, true},
		{"transient wins over retry after", ending{err: errors.Join(in(7*time.Second), ErrTransient)}, time.Second, false},
		{"retry after wins over other errors", ending{err: errors.Join(io.EOF, in(7*time.Second))}, 7 * time.Second, true},
		{
			"the earliest of several",
			ending{err: errors.Join(in(30*time.Second), errors.Join(io.EOF, in(5*time.Second)), in(20*time.Second))},
			5 * time.Second, true,
		},
		{"the earlier of nested ones", ending{err: RetryAfter(in(5*time.Second), now.Add(8*time.Second))}, 5 * time.Second, true},
		{"not later than the resync", ending{err: in(5 * time.Minute)}, time.Minute, true},
		{"a past time retries at once", ending{err: in(-time.Hour)}, 0, true},
		{"success, again", ending{Outcome: Outcome{Again: now.Add(7 * time.Second)}}, 7 * time.Second, true},
		{"success, again after the resync", ending{Outcome: Outcome{Again: now.Add(time.Hour)}}, time.Minute, true},
		{"success, again at once", ending{Outcome: Outcome{Again: now}}, 0, true},
		{"success, again at once twice in a row", ending{Outcome: Outcome{Again: now}, hasty: true}, time.Second, true},
		{"success, again later after at once", ending{Outcome: Outcome{Again: now.Add(2 * time.Second)}, hasty: true}, 2 * time.Second, true},
		{"an error ignores again", ending{err: io.EOF, Outcome: Outcome{Again: now}}, 10 * time.Second, false},
		{"but not twice in a row", ending{err: in(-time.Hour), hasty: true}, time.Second, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := pauseAfter(SyncEvent{Err: test.ending.err, Outcome: test.ending.Outcome, Ended: now}, test.ending.hasty)
			assert.Equal(t, test.want, p.delay)
			assert.Equal(t, test.exact, p.exact)
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
