// SPDX-License-Identifier: Apache-2.0

package url

import (
	"context"
	"fmt"
	"time"

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
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next, err := s.pollAndSubmit(ctx, out)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		timer.Reset(next)
	}
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
