// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"cmp"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/retry"
)

// Options configure Workers. Every func must be safe for concurrent use and is called without a
// lock held.
type Options struct {
	// Syncer does the work. Required. A Syncer that implements OrphanSyncer can also stop orphans.
	Syncer PodSyncer

	// Jitter spreads the delays of resyncs and retries, but not the time of a RetryAfter. A
	// negative result counts as 0. Defaults to adding up to half of the delay, evenly distributed.
	Jitter func(time.Duration) time.Duration
	// OnSync is called after every finished call, before the next call for the same UID begins.
	// OnSync must not block. Defaults to nothing.
	OnSync func(SyncEvent)
	// Logger receives failed calls. A failure that repeats with the same error text is logged once.
	// Defaults to silence.
	Logger *zap.Logger
}

// withDefaults returns o with defaults filled in, or an error that names the invalid field.
func (o Options) withDefaults() (Options, error) {
	if o.Syncer == nil {
		return o, errors.New("podworkers: Options.Syncer is required")
	}
	if o.Jitter == nil {
		o.Jitter = retry.AddUpToHalf
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return o, nil
}
