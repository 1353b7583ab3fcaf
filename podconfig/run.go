// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// What Run, and a Sink of Run, return.
var (
	// ErrSourceEnded: a source returned nil although its ctx had not ended.
	ErrSourceEnded = errors.New("podconfig: source ended early")
	// ErrStopped: the Run that a Sink belongs to has returned.
	ErrStopped = errors.New("podconfig: stopped")
)

// Merger tells what a change of a source means. *Store is one.
type Merger interface {
	// Merge has the contract of Store.Merge. Run calls it from one goroutine.
	//
	// If a Merger also has the method Register(...string) error, Run calls it with the names of all sources first.
	Merge(ctx context.Context, source string, c Change) ([]Update, error)
}

// Run runs the sources, merges what they say through m, and hands every update to out, all of it one after the other:
// out hears the updates in the order of the merges, one call at a time.
//
// Run returns when ctx has ended, with nil, or when a source or out has failed, with an error that names it; a source
// that ends early has failed. Then the other sources are stopped, too. In any case every source has returned by then,
// every change that was merged has been handed to out, and the pods of a failed source stay in the store: calling Run
// again with the same store and fresh sources goes on where it stopped.
//
// While out blocks, the sources wait; out must return when ctx ends. Queue.Push never blocks. An update that out
// refuses with an error is lost to the consumer, who then has to start anew from the store.
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

// register checks the arguments of Run and makes the sources known to m.
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

// runSource returns nil if the source ended because ctx did.
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

// bus takes the submissions of all sources to the one goroutine that merges.
type bus struct {
	merger      Merger
	out         func(context.Context, Update) error
	submissions chan submission
	stopped     chan struct{}
}

type submission struct {
	source string
	change Change
	// result has room for the one error that is sent.
	result chan error
}

// merge tells whether the error is a refusal of out, which ends Run, or one for the source alone.
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

// sink is the Sink of one source.
type sink struct {
	source string
	bus    *bus
}

// Submit, once its change is accepted, waits for the merge even if ctx ends, for the caller's pods are in use so long.
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
