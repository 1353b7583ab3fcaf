// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/keelson-dev/keelson/prober"
)

// DefaultUserAgent begins with the kubelet's word, which servers look for.
const DefaultUserAgent = "kube-probe/1.37 (keelson)"

// Errors of attempts that have no verdict.
var (
	// ErrNoPodIP says that the pod has no address yet, and the probe names no host.
	ErrNoPodIP = errors.New("the pod has no IP address")
	// ErrNoRunner says that there is an exec probe and no Runner.
	ErrNoRunner = errors.New("nothing here can run a command in a container")
	// ErrNoHandler says that the probe names nothing to do.
	ErrNoHandler = errors.New("the probe has no handler")
)

// Runner runs a command in a container instance, by its ID, and waits for it.
//
//   - ctx has the probe's timeout as its deadline. When it ends, the command and what it started are killed, and Exec
//     returns ctx's error soon.
//   - An error means that the command could not be run, or not to its end, and is no verdict unless ctx's deadline has
//     passed. An exit code other than 0 is not an error.
//   - The output may be cut; its first 10 KiB are of interest.
//   - It is called concurrently.
type Runner interface {
	Exec(ctx context.Context, id string, cmd []string) (stdout, stderr []byte, exitCode int, err error)
}

// RunnerFunc is a func that is a Runner.
type RunnerFunc func(ctx context.Context, id string, cmd []string) (stdout, stderr []byte, exitCode int, err error)

// Exec calls f.
func (f RunnerFunc) Exec(ctx context.Context, id string, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
	return f(ctx, id, cmd)
}

// Closing is how connections are closed.
type Closing uint8

// The ways to close. CloseReset leaves no socket in TIME_WAIT on this side: a tcpSocket or grpc connection is reset, and
// so is that of a httpGet if its server does not close it first. CloseFIN closes in the usual way.
const (
	CloseReset Closing = iota
	CloseFIN
)

// Options configure a Handler. Every func must be safe for concurrent use.
type Options struct {
	// Runner runs exec probes. Defaults to none: they have no verdict.
	Runner Runner
	// Dial connects to a target: through another network namespace, vsock, or in memory. A connection that has
	// SetLinger(int) error can be reset. Defaults to a net.Dialer.
	Dial func(ctx context.Context, t prober.Target, network, address string) (net.Conn, error)
	// UserAgent is for httpGet and grpc probes. Defaults to DefaultUserAgent.
	UserAgent string
	// Closing is how connections are closed. Defaults to CloseReset.
	Closing Closing
}

// Handler makes attempts of any kind. It is a prober.Handler.
type Handler struct{ options Options }

var _ prober.Handler = (*Handler)(nil)

// New returns a Handler. The error names the field of o that cannot be used.
func New(o Options) (*Handler, error) {
	if o.Closing > CloseFIN {
		return nil, fmt.Errorf("prober/handlers: Options.Closing is unknown: %d", o.Closing)
	}
	if o.Dial == nil {
		dialer := &net.Dialer{KeepAlive: -1}
		o.Dial = func(ctx context.Context, _ prober.Target, network, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		}
	}
	o.UserAgent = cmp.Or(o.UserAgent, DefaultUserAgent)
	return &Handler{options: o}, nil
}

// Probe makes one attempt, as t.Probe says. Whatever keeps a verdict from being found out is an error; a target that
// cannot be reached, or answers too late for ctx's deadline, is a failure.
func (h *Handler) Probe(ctx context.Context, t prober.Target) (prober.Outcome, error) {
	switch {
	case t.Probe == nil:
		return prober.Outcome{}, ErrNoHandler
	case t.Probe.Exec != nil:
		return h.exec(ctx, t, t.Probe.Exec)
	case t.Probe.HTTPGet != nil:
		return h.httpGet(ctx, t, t.Probe.HTTPGet)
	case t.Probe.TCPSocket != nil:
		return h.tcpSocket(ctx, t, t.Probe.TCPSocket)
	case t.Probe.GRPC != nil:
		return h.grpc(ctx, t, t.Probe.GRPC)
	}
	return prober.Outcome{}, ErrNoHandler
}

// failure is the outcome of a target that did not do what it should, unless the attempt was called off: then nothing
// was found out.
func failure(ctx context.Context, format string, args ...any) (prober.Outcome, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return prober.Outcome{}, context.Cause(ctx)
	}
	output := prober.LimitOutput(fmt.Sprintf(format, args...))
	return prober.Outcome{Verdict: prober.VerdictFailure, Output: output}, nil
}
