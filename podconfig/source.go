// SPDX-License-Identifier: Apache-2.0

package podconfig

import "context"

// Sink receives the changes of a source.
type Sink interface {
	// Submit returns after c has been merged and its updates have been passed to the consumer.
	// Calls from the same goroutine keep their order. Submit is safe for concurrent use. After
	// Submit the caller may edit the pods of c.
	//
	// An error means that ctx or the sink has ended, and wraps the cause, or else that c is
	// invalid. If ctx or the sink has ended, the source must end, and c was not merged unless the
	// consumer itself failed. An invalid change should not be repeated.
	Submit(ctx context.Context, c Change) error
}

// Source provides pods to run.
type Source interface {
	// Name is constant, not empty, and unique among the sources of one store.
	Name() string
	// Run submits every change to out until ctx ends. Then it ends all its goroutines and returns
	// nil or ctx's error. A return before the end of ctx is a failure of the source. The first
	// Snapshot, possibly empty, marks the source as complete. Actions that require a complete
	// source wait for the first Snapshot.
	Run(ctx context.Context, out Sink) error
}

// SourceFunc returns a Source with a name and a function with the contract of Source.Run.
func SourceFunc(name string, run func(ctx context.Context, out Sink) error) Source {
	return sourceFunc{name: name, run: run}
}

type sourceFunc struct {
	name string
	run  func(ctx context.Context, out Sink) error
}

func (s sourceFunc) Name() string                            { return s.name }
func (s sourceFunc) Run(ctx context.Context, out Sink) error { return s.run(ctx, out) }
