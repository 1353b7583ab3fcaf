// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"context"
	"sync/atomic"
	"time"
)

// Collector removes unneeded images. Its methods are safe for concurrent use; passes wait for each
// other.
type Collector struct {
	opts   Options
	ran    atomic.Bool
	listed atomic.Pointer[[]Image]
	holds  holds

	// turn is held by the running pass or inspection, which owns the following fields.
	turn    chan struct{}
	ages    ages
	loaded  bool      // the Store's records have been loaded
	unsaved bool      // the ages differ from the saved records
	saved   time.Time // time of the last save
}

// New returns a collector, or an error naming the invalid option. It has no side effects.
func New(opts Options) (*Collector, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Collector{opts: opts, turn: make(chan struct{}, 1)}, nil
}

// takeTurn waits until no other pass or inspection runs.
func (c *Collector) takeTurn(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case c.turn <- struct{}{}:
		c.holds.startPass()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Collector) returnTurn() {
	c.holds.endPass()
	<-c.turn
}
