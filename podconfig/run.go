// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Errors of Run and its Sinks.
var (
	// ErrSourceEnded: a source returned nil before its ctx ended.
	ErrSourceEnded = errors.New("podconfig: source ended early")
	// ErrStopped: the Run of a Sink has returned.
	ErrStopped = errors.New("podconfig: stopped")
)

// Merger turns a change of a source into updates. *Store implements it.
type Merger interface {
	// Merge has the contract of Store.Merge. Run makes one call at a time, in the goroutine of a
	// source.
	//
	// If a Merger has a method Register(...string) error, Run first calls it with the names of all
	// sources.
	Merge(ctx context.Context, source string, c Change) ([]Update, error)
}

// Run runs the sources, merges their changes through m, and passes every update to out. Calls of
// out are sequential and in the order of the merges.
//
// Run returns nil after ctx has ended, or an error naming the source or out that failed. A source
// that ends early has failed. After a failure the other sources are stopped. Before Run returns,
// every source has returned and every merged change has been passed to out. The pods of a failed
// source stay in the store: call Run again with the same store and fresh sources to continue.
//
// While out blocks, the sources wait; out must return when ctx ends. Queue.Push never blocks. If
// out returns an error, the update is lost to the consumer, which must then start anew from the
// store.
func Run(ctx context.Context, m Merger, out func(context.Context, Update) error, sources ...Source) error {
	if err := register(m, out, sources); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := &bus{merger: m, out: out, ctx: ctx, cancel: cancel, turn: make(chan struct{}, 1), stopped: make(chan struct{})}
	defer close(b.stopped)
	var wg sync.WaitGroup
	for _, s := range sources {
		wg.Go(func() {
			if err := runSource(ctx, s, b); err != nil {
				b.turn <- struct{}{}
				b.fail(err)
				<-b.turn
			}
		})
	}
	if len(sources) == 0 {
		<-ctx.Done()
	}
	wg.Wait()
	b.turn <- struct{}{} // for good: a goroutine of a source may still submit
	return errors.Join(b.failures...)
}

// register checks the arguments of Run and registers the sources with m.
func register(m Merger, out func(context.Context, Update) error, sources []Source) error {
	if m == nil || out == nil {
		return errors.New("podconfig: Run: merger and out must not be nil")
	}
	names := make([]string, 0, len(sources))
	known := make(map[string]bool, len(sources))
	for i, s := range sources {
		switch {
		case s == nil:
			return fmt.Errorf("podconfig: Run: source %d is nil", i)
		case s.Name() == "":
			return fmt.Errorf("podconfig: Run: source %d: %w", i, ErrNoSource)
		case known[s.Name()]:
			return fmt.Errorf("podconfig: Run: two sources are named %q", s.Name())
		}
		known[s.Name()] = true
		names = append(names, s.Name())
	}
	if r, ok := m.(interface{ Register(...string) error }); ok {
		if err := r.Register(names...); err != nil {
			return fmt.Errorf("podconfig: Run: register the sources: %w", err)
		}
	}
	return nil
}

// runSource returns nil if the source ended because of ctx.
func runSource(ctx context.Context, s Source, b *bus) error {
	err := s.Run(ctx, sink{source: s.Name(), bus: b})
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	if err == nil {
		err = ErrSourceEnded
	}
	return fmt.Errorf("podconfig: source %q: %w", s.Name(), err)
}

// bus merges the submissions of all sources, one at a time.
type bus struct {
	merger   Merger
	out      func(context.Context, Update) error
	ctx      context.Context // of Run
	cancel   context.CancelCauseFunc
	turn     chan struct{} // holds a token during a merge, and after Run
	stopped  chan struct{}
	failures []error // used with the turn only
}

// fail stops all sources, and makes Run return err.
func (b *bus) fail(err error) {
	b.failures = append(b.failures, err)
	b.cancel(err)
}

// merge merges a change. An error of out ends Run; another error is for the source alone.
func (b *bus) merge(source string, c Change) error {
	updates, err := b.merger.Merge(b.ctx, source, c)
	if err != nil {
		return err
	}
	for _, u := range updates {
		if err := b.out(b.ctx, u); err != nil {
			err = fmt.Errorf("podconfig: hand over %s of source %q: %w", u.Op, u.Source, err)
			b.fail(err)
			return err
		}
	}
	return nil
}

// sink is the Sink of a source.
type sink struct {
	source string
	bus    *bus
}

// Submit merges the change in the goroutine of the caller, after the merges of other sources. An accepted
// change is merged even if ctx ends.
func (s sink) Submit(ctx context.Context, c Change) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case s.bus.turn <- struct{}{}:
		defer func() { <-s.bus.turn }()
		return s.bus.merge(s.source, c)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.bus.stopped:
		return ErrStopped
	}
}
