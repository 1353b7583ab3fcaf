// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/retry"
)

// ErrAlreadyRun is returned by a second call of Collector.Run.
var ErrAlreadyRun = errors.New("imagegc: Run was called before")

// Run collects at once and then every Options.Interval. It detects images in use at least every
// 5 minutes, and refreshes GetImageList every 30 s. If a collection frees too little because images
// are too young, Run collects again when the first of these images is old enough.
// With HighPercent 100 and no MaxAge, Run collects nothing.
//
// Run returns nil after ctx has ended and all its goroutines have stopped. All other methods work
// before, during and after Run.
func (c *Collector) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return ErrAlreadyRun
	}
	var wg sync.WaitGroup
	wg.Go(func() { c.keepList(ctx) })
	c.keepCollecting(ctx)
	wg.Wait()
	return nil
}

// keepList refreshes the image list until ctx ends. After an error the old list stays. Repetitions
// of the same error are not logged.
func (c *Collector) keepList(ctx context.Context) {
	tick := time.Tick(listInterval)
	failed := failurelog.Log{Logger: c.opts.Logger, Failed: "Cannot refresh the list of images"}
	for {
		if err := c.RefreshImageList(ctx); ctx.Err() == nil {
			failed.Report(err)
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}

// keepCollecting collects and, between collections, detects images until ctx ends.
func (c *Collector) keepCollecting(ctx context.Context) {
	failures := 0
	collectAt := time.Now()
	if c.opts.Policy.disabled() {
		collectAt = time.Time{}
	}
	for {
		if !collectAt.IsZero() && !time.Now().Before(collectAt) {
			retryAt := c.collectOnce(ctx, &failures)
			collectAt = time.Now().Add(c.opts.Interval)
			if !retryAt.IsZero() && retryAt.Before(collectAt) {
				collectAt = retryAt
			}
		} else if err := c.Detect(ctx); err != nil && ctx.Err() == nil {
			c.opts.Logger.Warn("Cannot detect images", zap.Error(err))
		}
		next := time.Now().Add(detectInterval)
		if !collectAt.IsZero() && collectAt.Before(next) {
			next = collectAt
		}
		if retry.Sleep(ctx, time.Until(next)) != nil {
			return
		}
	}
}

// collectOnce collects and logs the result. As in the kubelet, the first failure sends no event,
// because right after the start some parts may not answer yet.
func (c *Collector) collectOnce(ctx context.Context, failures *int) (retryAt time.Time) {
	result, err := c.GarbageCollect(ctx)
	if len(result.Removed) > 0 {
		c.opts.Logger.Info("Removed images", zap.Int("images", len(result.Removed)), zap.Uint64("freedBytes", result.Freed),
			zap.Int("usagePercent", result.UsagePercent), zap.Duration("took", result.Ended.Sub(result.Started)))
	}
	if result.DryRun {
		for _, r := range result.Plan.Remove {
			c.opts.Logger.Info("Would remove image", zap.String("image", r.Image.Name()), zap.String("imageID", r.Image.ID),
				zap.Uint64("bytes", r.Image.Size), zap.String("reason", string(r.Reason)), zap.Time("idleSince", r.IdleSince))
		}
	}
	switch {
	case ctx.Err() != nil:
	case err == nil:
		*failures = 0
	default:
		*failures++
		c.opts.Logger.Warn("Image garbage collection failed", zap.Int("failures", *failures), zap.Error(err))
		if *failures > 1 && !c.opts.DryRun {
			c.opts.Events.Event(v1.EventTypeWarning, eventImageGCFailed, err.Error())
		}
	}
	return result.RetryAt
}
