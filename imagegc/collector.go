// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"context"
	"sync/atomic"
	"time"
)

// Collector removes images that are not needed. Its methods are safe for concurrent use; passes wait for one another.
type Collector struct {
	opts   Options
	ran    atomic.Bool
	listed atomic.Pointer[[]Image]
	holds  holds

	// turn is for one pass or look at a time. What follows belongs to whoever has it.
	turn    chan struct{}
	ages    ages
	loaded  bool      // the ages of before are in
	unsaved bool      // the ages are others than those saved
	saved   time.Time // when that was
}

// New returns a collector, or an error that names the option that cannot be used. It touches nothing.
func New(opts Options) (*Collector, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Collector{opts: opts, turn: make(chan struct{}, 1)}, nil
}

// take waits for the turn.
func (c *Collector) take(ctx context.Context) error {
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

func (c *Collector) give() {
	c.holds.endPass()
	<-c.turn
}
