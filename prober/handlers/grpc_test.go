// SPDX-License-Identifier: Apache-2.0

package handlers_test

import (
	"context"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/handlers"
)

// healthServer answers by the name of the service.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	seen metadata.MD
}

func (s *healthServer) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	s.seen, _ = metadata.FromIncomingContext(ctx)
	switch r.Service {
	case "":
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
	case "ill":
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, status.Error(codes.NotFound, "unknown service")
}

// serveGRPC serves s, or no service if s is nil.
func serveGRPC(t testing.TB, address string, s *healthServer, o ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("cannot listen on %s: %v", address, err)
	}
	server := grpc.NewServer(o...)
	if s != nil {
		grpc_health_v1.RegisterHealthServer(server, s)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

func grpcTarget(t testing.TB, address, service string, mode ...v1.GRPCProbeMode) prober.Target {
	t.Helper()
	action := &v1.GRPCAction{}
	if service != "" {
		action.Service = &service
	}
	if len(mode) > 0 {
		action.Mode = &mode[0]
	}
	return targetOf(t, address, v1.ProbeHandler{GRPC: action})
}

func TestGRPC(t *testing.T) {
	s := &healthServer{}
	address := serveGRPC(t, "127.0.0.1:0", s)
	h := newHandler(t, handlers.Options{})
	healthy := prober.Outcome{Verdict: prober.VerdictSuccess, Output: "service healthy"}
	assert.Equal(t, healthy, outcome(t, timeout, h, grpcTarget(t, address, "")))
	assert.Contains(t, s.seen.Get("user-agent")[0], "kube-probe/")
	assert.Equal(t, []string{address}, s.seen.Get(":authority"))
	assert.Equal(t, healthy, outcome(t, timeout, h, grpcTarget(t, address, "", v1.GRPCProbeModePlaintext)))
	assert.Equal(t, healthy, outcome(t, timeout, h, grpcTarget(t, serveGRPC(t, "[::1]:0", s), "")))
	for service, want := range map[string]string{
		"ill":    `service unhealthy (responded with "NOT_SERVING")`,
		"nobody": "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service",
	} {
		out := outcome(t, timeout, h, grpcTarget(t, address, service))
		assert.Equal(t, prober.Outcome{Verdict: prober.VerdictFailure, Output: want}, out)
	}
	out := outcome(t, brief, h, grpcTarget(t, address, "slow"))
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.Contains(t, out.Output, "timeout: health rpc did not complete within ")
}

func TestGRPCNotImplemented(t *testing.T) {
	out := outcome(t, timeout, newHandler(t, handlers.Options{}), grpcTarget(t, serveGRPC(t, "127.0.0.1:0", nil), ""))
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.Contains(t, out.Output, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service")
}

func TestGRPCOverTLS(t *testing.T) {
	certificate := httptest.NewTLSServer(nil)
	certificate.Close()
	config := certificate.TLS
	config.NextProtos = []string{"h2"}
	address := serveGRPC(t, "127.0.0.1:0", &healthServer{}, grpc.Creds(credentials.NewTLS(config)))
	h := newHandler(t, handlers.Options{})
	out := outcome(t, timeout, h, grpcTarget(t, address, "", v1.GRPCProbeModeTLS))
	assert.Equal(t, prober.Outcome{Verdict: prober.VerdictSuccess, Output: "service healthy"}, out, "nobody asks who signed it")

	out = outcome(t, timeout, h, grpcTarget(t, address, ""))
	assert.Equal(t, prober.VerdictFailure, out.Verdict, "plaintext to a TLS port")
	plain := serveGRPC(t, "127.0.0.1:0", &healthServer{})
	out = outcome(t, timeout, h, grpcTarget(t, plain, "", v1.GRPCProbeModeTLS))
	assert.Equal(t, prober.VerdictFailure, out.Verdict, "TLS to a plaintext port")
	assert.Contains(t, out.Output, "error: failed to connect service at \""+plain+"\":")
}

// TestUpstreamRefusedConnectionFailsAtOnce: the kubelet's blocking dial tries again until the timeout.
func TestUpstreamRefusedConnectionFailsAtOnce(t *testing.T) {
	address := closedPort(t)
	began := time.Now()
	out := outcome(t, timeout, newHandler(t, handlers.Options{}), grpcTarget(t, address, ""))
	assert.Less(t, time.Since(began), timeout/2)
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.Contains(t, out.Output, "error: failed to connect service at \""+address+"\": dial tcp "+address)
	assert.Contains(t, out.Output, "connection refused")
}

func TestGRPCSilentServer(t *testing.T) {
	silent := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }).Addr().String()
	out := outcome(t, brief, newHandler(t, handlers.Options{}), grpcTarget(t, silent, ""))
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.Contains(t, out.Output, "timeout: failed to connect service \""+silent+"\" within ")
}

func TestUpstream89898NoTimeWaitOfGRPC(t *testing.T) {
	address := serveGRPC(t, ownLoopback(), &healthServer{})
	h := newHandler(t, handlers.Options{})
	for range 20 {
		require.Equal(t, prober.VerdictSuccess, outcome(t, timeout, h, grpcTarget(t, address, "")).Verdict)
	}
	assert.Zero(t, timeWaits(t, address))
}
