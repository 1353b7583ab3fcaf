// SPDX-License-Identifier: Apache-2.0

package handlers_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/handlers"
)

// BenchmarkAttempt is one attempt over loopback, server included, beside the kubelet's method: a shared transport
// without keep-alives, a dial with a linger of 1 s, and grpc-go with its defaults.
func BenchmarkAttempt(b *testing.B) {
	h := newHandler(b, handlers.Options{})
	web := serve(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	health := serveGRPC(b, "127.0.0.1:0", &healthServer{})
	socket := listen(b, "tcp", "127.0.0.1:0", nil).Addr().String()
	attempt := func(target prober.Target) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if out := outcome(b, timeout, h, target); out.Verdict != prober.VerdictSuccess {
					b.Fatal(out)
				}
			}
		}
	}
	naive := func(ask func(context.Context) error) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithTimeout(b.Context(), timeout)
				if err := ask(ctx); err != nil {
					b.Fatal(err)
				}
				cancel()
			}
		}
	}
	b.Run("http/keelson", attempt(get(b, web, "/")))
	b.Run("http/kubelet", naive(kubeletGet(web.URL)))
	b.Run("tcp/keelson", attempt(tcpTarget(b, socket)))
	b.Run("tcp/kubelet", naive(kubeletDial(socket)))
	b.Run("grpc/keelson", attempt(grpcTarget(b, health, "")))
	b.Run("grpc/kubelet", naive(kubeletCheck(health)))
	b.Run("h2c/keelson", attempt(get(b, h2cServer(b, func(http.ResponseWriter, *http.Request) {}), "/", h2c)))
}

func lingering(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(1)
	}
	return c, err
}

func kubeletGet(url string) func(context.Context) error {
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, DialContext: lingering, TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(io.LimitReader(resp.Body, prober.MaxOutput))
		return err
	}
}

func kubeletDial(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := lingering(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

func kubeletCheck(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		cc, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return lingering(ctx, "tcp", address)
			}))
		if err != nil {
			return err
		}
		defer cc.Close()
		_, err = grpc_health_v1.NewHealthClient(cc).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	}
}
