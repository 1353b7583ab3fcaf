// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"errors"
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/prober"
)

// userAgent is sent by httpGet and grpc probes. It begins with the kubelet's product name, because
// servers look for the name.
const userAgent = "kube-probe/1.37 (keelson)"

// Errors of attempts without a verdict.
var (
	// ErrNoPodIP: the pod has no address yet, and the probe names no host.
	ErrNoPodIP = errors.New("the pod has no IP address")
	// ErrNoRunner: the probe is an exec probe, and Options.Runner is nil.
	ErrNoRunner = errors.New("nothing here can run a command in a container")
	// ErrNoHandler: the probe has no action.
	ErrNoHandler = errors.New("the probe has no handler")
)

// Runner runs a command in a container instance, by its ID, and waits for the command.
//
//   - ctx has the probe's timeout as its deadline. When ctx ends, Exec kills the command with its
//     child processes and returns the error of ctx soon.
//   - An error means that the command did not run to its end. The attempt has no verdict unless the
//     deadline of ctx has passed. An exit code other than 0 is not an error.
//   - The output may be cut; only the first 10 KiB are used.
//   - Exec is called concurrently.
type Runner interface {
	Exec(ctx context.Context, id string, cmd []string) (stdout, stderr []byte, exitCode int, err error)
}

// RunnerFunc adapts a func to Runner.
type RunnerFunc func(ctx context.Context, id string, cmd []string) (stdout, stderr []byte, exitCode int, err error)

// Exec calls f.
func (f RunnerFunc) Exec(ctx context.Context, id string, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
	return f(ctx, id, cmd)
}

// Options configure a Handler.
type Options struct {
	// Runner runs exec probes. Defaults to nil: exec probes have no verdict.
	Runner Runner

	// DialPod connects with a pod's own address, such as the method of a runtime.PodDialer. Defaults to
	// a connection from the host's network, as the kubelet makes. Other hosts of a probe are always
	// connected from there.
	DialPod func(ctx context.Context, pod types.UID, network, address string) (net.Conn, error)
}

// Handler makes attempts of any kind. Handler implements prober.Handler.
type Handler struct {
	runner  Runner
	dial    dial
	dialPod func(ctx context.Context, pod types.UID, network, address string) (net.Conn, error)
}

// dial makes a connection.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// dialOf returns how an attempt connects with a host, or with the pod for "".
func (h *Handler) dialOf(t prober.Target, host string) dial {
	if h.dialPod == nil || host != "" && host != t.Instance.PodIP {
		return h.dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return h.dialPod(ctx, t.Pod.UID, network, address)
	}
}

var _ prober.Handler = (*Handler)(nil)

// New returns a Handler. The error is always nil.
func New(o Options) (*Handler, error) {
	dialer := &net.Dialer{KeepAlive: -1}
	return &Handler{runner: o.Runner, dial: dialer.DialContext, dialPod: o.DialPod}, nil
}

// Probe makes one attempt according to t.Probe. Any obstacle on the node is an error without a
// verdict. An unreachable target, or an answer after ctx's deadline, is a failure.
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

// failure returns the outcome of an unhealthy target. If the attempt was cancelled, failure returns
// the cause and no verdict.
func failure(ctx context.Context, format string, args ...any) (prober.Outcome, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return prober.Outcome{}, context.Cause(ctx)
	}
	output := prober.LimitOutput(fmt.Sprintf(format, args...))
	return prober.Outcome{Verdict: prober.VerdictFailure, Output: output}, nil
}
