// SPDX-License-Identifier: Apache-2.0

package url

import (
	"context"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/podconfig"
)

// Run submits a snapshot of all pods to out after the first successful poll and after every change,
// until ctx ends. Then it returns nil. An error of out also ends Run and is returned.
func (s *Source) Run(ctx context.Context, out podconfig.Sink) error {
	if !s.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	if s.own {
		defer s.client.CloseIdleConnections()
	}
	for ctx.Err() == nil {
		next, err := s.pollAndSubmit(ctx, out)
		if err != nil && ctx.Err() == nil {
			return err
		}
		_ = retry.Sleep(ctx, next)
	}
	return nil
}

// pollAndSubmit polls and submits a change.
func (s *Source) pollAndSubmit(ctx context.Context, out podconfig.Sink) (next time.Duration, err error) {
	r, err := s.Poll(ctx)
	if err != nil {
		return 0, err
	}
	s.report.set(r.Problem)
	if r.Changed {
		if err := out.Submit(ctx, podconfig.Snapshot(r.Pods...)); err != nil {
			return 0, fmt.Errorf("url source: submit: %w", err)
		}
	}
	return r.Next, nil
}
