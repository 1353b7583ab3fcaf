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
	// Merge has the contract of Store.Merge. Run calls it from a single goroutine.
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
	b := &bus{
		merger: m, out: out,
		submissions: make(chan submission),
		stopped:     make(chan struct{}),
	}
	defer close(b.stopped)
	ends := make(chan error)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, s := range sources {
		wg.Go(func() { ends <- runSource(ctx, s, b) })
	}
	if len(sources) == 0 {
		<-ctx.Done()
	}
	var failures []error
	fail := func(err error) {
		failures = append(failures, err)
		cancel(err)
	}
	for running := len(sources); running > 0; {
		select {
		case sub := <-b.submissions:
			refused, err := b.merge(ctx, sub)
			if refused {
				fail(err)
			}
			sub.result <- err
		case err := <-ends:
			running--
			if err != nil {
				fail(err)
			}
		}
	}
	return errors.Join(failures...)
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

// bus passes the submissions of all sources to the merging goroutine.
type bus struct {
	merger      Merger
	out         func(context.Context, Update) error
	submissions chan submission
	stopped     chan struct{}
}

type submission struct {
	source string
	change Change
	// result has a buffer for its only error.
	result chan error
}

// merge merges a submission. refused reports whether the error is from out, which ends Run, rather
// than an error for the source alone.
func (b *bus) merge(ctx context.Context, sub submission) (refused bool, err error) {
	updates, err := b.merger.Merge(ctx, sub.source, sub.change)
	if err != nil {
		return false, err
	}
	for _, u := range updates {
		if err := b.out(ctx, u); err != nil {
			return true, fmt.Errorf("podconfig: hand over %s of source %q: %w", u.Op, u.Source, err)
		}
	}
	return false, nil
}

// sink is the Sink of a source.
type sink struct {
	source string
	bus    *bus
}

// Submit waits for the merge of an accepted change even if ctx ends, because the merge uses the
// caller's pods.
func (s sink) Submit(ctx context.Context, c Change) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	sub := submission{source: s.source, change: c, result: make(chan error, 1)}
	select {
	case s.bus.submissions <- sub:
		return <-sub.result
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.bus.stopped:
		return ErrStopped
	}
}
