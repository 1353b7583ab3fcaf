// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/prober"
)

// Bounds of a connection; a health check fits many times.
const (
	grpcBuffer  = 4 << 10
	grpcMessage = 64 << 10
	grpcHeaders = 64 << 10
)

// grpc calls the standard health service over a new connection.
func (h *Handler) grpc(ctx context.Context, t prober.Target, action *v1.GRPCAction) (prober.Outcome, error) {
	if t.Instance.PodIP == "" {
		return prober.Outcome{}, ErrNoPodIP
	}
	began := time.Now()
	address := net.JoinHostPort(t.Instance.PodIP, strconv.Itoa(int(action.Port)))
	l := &lines{connect: h.dialOf(t, "")}
	l.hurry() // no server closes first
	defer l.close()
	var broken dialError
	dial := func(_ context.Context, _ string) (net.Conn, error) {
		c, err := l.dial(ctx, "tcp", address)
		broken.set(err)
		return c, err
	}
	cc, err := h.newClient(address, action, dial)
	if err != nil {
		return prober.Outcome{}, err
	}
	defer cc.Close()
	connected := connect(ctx, cc)
	if !connected && ctx.Err() != nil {
		return failure(ctx, "timeout: failed to connect service %q within %v: %v", address, spent(began), ctx.Err())
	}
	var service string
	if action.Service != nil {
		service = *action.Service
	}
	resp, err := grpc_health_v1.NewHealthClient(cc).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	switch {
	case err != nil && !connected:
		return failure(ctx, "error: failed to connect service at %q: %v", address, errorOr(broken.get(), err))
	case err != nil:
		return failure(ctx, "%s", rpcFailure(ctx, err, began))
	case resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
		return failure(ctx, "service unhealthy (responded with %q)", resp.GetStatus().String())
	}
	return prober.Outcome{Verdict: prober.VerdictSuccess, Output: "service healthy"}, nil
}

// newClient returns a client that connects only through dial, and once.
func (h *Handler) newClient(
	address string, action *v1.GRPCAction, dial func(context.Context, string) (net.Conn, error),
) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if action.Mode != nil && *action.Mode == v1.GRPCProbeModeTLS {
		creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}) // as the kubelet (KEP-4939)
	}
	return grpc.NewClient("passthrough:///probe",
		grpc.WithAuthority(address),
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(dial),
		grpc.WithUserAgent(userAgent),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableHealthCheck(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
		grpc.WithReadBufferSize(grpcBuffer),
		grpc.WithWriteBufferSize(grpcBuffer),
		grpc.WithMaxHeaderListSize(grpcHeaders),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(grpcMessage)),
	)
}

// connect tries to connect once. False: the connection failed, and the next call returns the error,
// or ctx ended.
func connect(ctx context.Context, cc *grpc.ClientConn) bool {
	cc.Connect()
	for {
		switch state := cc.GetState(); state {
		case connectivity.Ready:
			return true
		case connectivity.TransientFailure, connectivity.Shutdown:
			return false
		default:
			if !cc.WaitForStateChange(ctx, state) {
				return false
			}
		}
	}
}

// rpcFailure describes a failed call in the kubelet's words.
func rpcFailure(ctx context.Context, err error, began time.Time) string {
	s := status.Convert(err)
	switch {
	case s.Code() == codes.Unimplemented:
		return "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + s.Message()
	case s.Code() == codes.DeadlineExceeded, errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "timeout: health rpc did not complete within " + spent(began).String()
	}
	return "error: health rpc probe failed: " + err.Error()
}

// spent is the time since began, in a form for people.
func spent(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }

// dialError is the last error of a dialer. grpc-go calls the dialer in a separate goroutine.
type dialError struct {
	mu  sync.Mutex
	err error
}

func (d *dialError) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *dialError) get() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// errorOr returns first if not nil, else the text of call without grpc-go's prefix.
func errorOr(first, call error) error {
	if first != nil {
		return first
	}
	return errors.New(status.Convert(call).Message())
}
