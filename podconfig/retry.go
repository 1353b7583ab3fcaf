// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/keelson-dev/keelson/internal/retry"
)

// The wait after the first failure of a source, and the longest wait. Up to the same time is added at
// random.
const firstRetry, longestRetry = time.Second, 5 * time.Minute

// Retry returns a Source that runs s again after a failure, so that an error of s does not end Run. The
// waits are 1 s, 2 s and so on up to 5 min, each up to twice as long at random. After a run of more
// than 5 min the waits begin anew. The pods of s stay until s submits other pods.
//
// problem, if not nil, receives each failure with the wait before the next run, and nil with a wait of
// 0 after the first change that is accepted afterwards. It must not block. A return of s before the end of ctx without an
// error is the failure ErrSourceEnded.
//
// The Run method of s must be callable again after it has returned.
func Retry(s Source, problem func(err error, again time.Duration)) Source {
	if problem == nil {
		problem = func(error, time.Duration) {}
	}
	return &retried{Source: s, problem: problem}
}

type retried struct {
	Source
	problem func(error, time.Duration)
}

// Run implements Source.
func (r *retried) Run(ctx context.Context, out Sink) error {
	s := &watchedSink{Sink: out, over: func() { r.problem(nil, 0) }}
	for failures := 1; ; failures++ {
		began := time.Now()
		err := r.Source.Run(ctx, s)
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			err = ErrSourceEnded
		}
		if time.Since(began) > longestRetry {
			failures = 1
		}
		wait := retry.Backoff(failures, firstRetry, longestRetry, rand.Float64())
		s.failed.Store(true)
		r.problem(err, wait)
		if err := retry.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// watchedSink calls over after the first accepted change that follows a failure.
type watchedSink struct {
	Sink
	failed atomic.Bool
	over   func()
}

// Submit implements Sink.
func (s *watchedSink) Submit(ctx context.Context, c Change) error {
	err := s.Sink.Submit(ctx, c)
	if err == nil && s.failed.Swap(false) {
		s.over()
	}
	return err
}
