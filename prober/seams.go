// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// Handler makes one attempt. Package handlers implements the probe handlers of the Kubernetes API.
//
//   - Probe is called concurrently, but at most once at a time for one probe of one instance. Up to
//     two cancelled attempts may still be returning when the next attempt begins.
//   - ctx has the probe's timeout as its deadline and is cancelled when the probe is stopped. A
//     Handler must return soon after ctx ended. Its probe has no other attempt before the return,
//     and Run waits for the return.
//   - An error means an attempt without a verdict. An attempt past its deadline is a failure,
//     whatever Probe returns.
type Handler interface {
	Probe(ctx context.Context, t Target) (Outcome, error)
}

// HandlerFunc adapts a func to Handler.
type HandlerFunc func(ctx context.Context, t Target) (Outcome, error)

// Probe calls f.
func (f HandlerFunc) Probe(ctx context.Context, t Target) (Outcome, error) { return f(ctx, t) }

// Sink receives changed results.
//
//   - Calls come one at a time from one goroutine, without locks held, so a Sink may call the
//     Prober. While a Sink blocks, probing continues. Afterwards the Sink receives only the latest
//     result of each probe, and only if changed.
//   - The updates of one probe come in order. The success of a startup probe comes before updates
//     of readiness and liveness.
//   - No call begins for an instance after the Prober dropped the instance, nor for a stopped kind.
//     A call in progress may be about an instance that ends meanwhile: compare the ID.
type Sink interface {
	ProbeResult(u Update)
}

// SinkFunc adapts a func to Sink.
type SinkFunc func(u Update)

// ProbeResult calls f.
func (f SinkFunc) ProbeResult(u Update) { f(u) }

// EventRecorder receives events. client-go's recorder implements EventRecorder. Event is called
// without locks held and must not block.
type EventRecorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}
