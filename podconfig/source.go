// SPDX-License-Identifier: Apache-2.0

package podconfig

import "context"

// Sink takes what a source says.
type Sink interface {
	// Submit returns when c has been merged and its updates have been handed to the consumer, in the order of the calls
	// of one goroutine. It is safe for concurrent use. Afterwards the pods of c are the caller's again.
	//
	// An error wraps the cause of ctx's or the sink's end, then nothing of c was merged unless the consumer itself
	// failed; or it tells that c is invalid. A source ends on the former, and need not repeat the latter.
	Submit(ctx context.Context, c Change) error
}

// Source finds out which pods should run.
type Source interface {
	// Name is constant, not empty, and unique among the sources of one store.
	Name() string
	// Run tells out about every change until ctx ends; then it returns nil or ctx's error, having ended every goroutine
	// it began. A return before that counts as a failure of the source. Its first Snapshot, empty if need be, tells
	// that the source is complete; until then nothing that depends on completeness happens.
	Run(ctx context.Context, out Sink) error
}

// SourceFunc makes a Source of a name and a function with the contract of Source.Run.
func SourceFunc(name string, run func(ctx context.Context, out Sink) error) Source {
	return sourceFunc{name: name, run: run}
}

type sourceFunc struct {
	name string
	run  func(ctx context.Context, out Sink) error
}

func (s sourceFunc) Name() string                            { return s.name }
func (s sourceFunc) Run(ctx context.Context, out Sink) error { return s.run(ctx, out) }
