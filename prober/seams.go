// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// Handler makes one attempt. Package handlers has those of the Kubernetes API.
//
//   - It is called concurrently, at most once at a time for one probe of one instance. An attempt that was cancelled
//     may still be returning when the next begins.
//   - ctx has the probe's timeout as its deadline and is cancelled when the probe is stopped. A Handler returns soon
//     after ctx ended; until then it occupies a place among Options.Concurrency, and Run waits for it.
//   - An error means that nothing was found out, and is no verdict. An attempt whose deadline has passed is a failure,
//     whatever error comes back.
type Handler interface {
	Probe(ctx context.Context, t Target) (Outcome, error)
}

// HandlerFunc is a func that is a Handler.
type HandlerFunc func(ctx context.Context, t Target) (Outcome, error)

// Probe calls f.
func (f HandlerFunc) Probe(ctx context.Context, t Target) (Outcome, error) { return f(ctx, t) }

// Sink is told of results that changed.
//
//   - Calls come one at a time from one goroutine, without locks held, so a Sink may call the Prober. While it blocks,
//     probing goes on; of what changes meanwhile it learns the latest per probe, and nothing if that is what it knows.
//   - The updates of one probe come in order, and that of a startup probe's success before any of the others.
//   - No call begins for an instance after the Prober learned that it is gone, nor for a kind that was stopped. One
//     that has begun may be about an instance that goes away meanwhile: compare the ID.
type Sink interface {
	ProbeResult(u Update)
}

// SinkFunc is a func that is a Sink.
type SinkFunc func(u Update)

// ProbeResult calls f.
func (f SinkFunc) ProbeResult(u Update) { f(u) }

// EventRecorder receives events. client-go's recorder fits as it is. It is called without locks held and must not
// block.
type EventRecorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}
