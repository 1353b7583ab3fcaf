// SPDX-License-Identifier: Apache-2.0

package handlers_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/handlers"
)

func tcpTarget(t testing.TB, address string) prober.Target {
	return targetOf(t, address, v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{}})
}

func TestTCP(t *testing.T) {
	h := newHandler(t, handlers.Options{})
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			l := listen(t, "tcp", address, nil)
			assert.Equal(t, prober.Outcome{Verdict: prober.VerdictSuccess}, outcome(t, timeout, h, tcpTarget(t, l.Addr().String())))
		})
	}
	out := outcome(t, timeout, h, tcpTarget(t, closedPort(t)))
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.Contains(t, out.Output, "connection refused")
}

// TestUpstream89898NoTimeWait: the kubelet's linger of 1 s leaves a socket in TIME_WAIT for every probe.
func TestUpstream89898NoTimeWait(t *testing.T) {
	const attempts = 50
	answer := func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	}
	keeps := func(c net.Conn) { answer(c); _, _ = io.Copy(io.Discard, c) }
	probes := map[string]struct {
		serve func(net.Conn)
		probe v1.ProbeHandler
	}{
		"tcp":                         {nil, v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{}}},
		"http":                        {answer, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{}}},
		"http server that never ends": {keeps, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{}}},
	}
	for name, tc := range probes {
		t.Run(name, func(t *testing.T) {
			l := listen(t, "tcp", ownLoopback(), tc.serve)
			h := newHandler(t, handlers.Options{})
			for range attempts {
				require.Equal(t, prober.VerdictSuccess, outcome(t, timeout, h, targetOf(t, l.Addr().String(), tc.probe)).Verdict)
			}
			assert.Zero(t, timeWaits(t, l.Addr().String()))
		})
	}
	t.Run("the usual way", func(t *testing.T) {
		l := listen(t, "tcp", ownLoopback(), func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		for range attempts {
			c, err := net.Dial("tcp", l.Addr().String())
			require.NoError(t, err)
			require.NoError(t, c.Close())
		}
		assert.Eventually(t, func() bool { return timeWaits(t, l.Addr().String()) > 0 }, time.Minute, time.Millisecond,
			"the server closes, too; or this test could not fail")
	})
}

// patience counts the waits for a peer to close.
type patience struct {
	net.Conn
	waits *atomic.Int32
}

func (p patience) SetReadDeadline(at time.Time) error {
	if !at.IsZero() {
		p.waits.Add(1)
	}
	return p.Conn.SetReadDeadline(at)
}

// TestWhoWaitsForThePeer: servers of HTTP/1.1 close first, all others do not.
func TestWhoWaitsForThePeer(t *testing.T) {
	secure := func(protocol string) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(proto))
		s.EnableHTTP2 = protocol == "h2"
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	for name, tc := range map[string]struct {
		target prober.Target
		want   int32
	}{
		"http":             {get(t, serve(t, proto), "/"), 1},
		"https":            {get(t, secure("http/1.1"), "/"), 1},
		"https and HTTP/2": {get(t, secure("h2"), "/"), 0},
		"h2c":              {get(t, h2cServer(t, proto), "/", h2c), 0},
	} {
		var waits atomic.Int32
		h := newHandler(t, handlers.Options{})
		h.Dial(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return patience{c, &waits}, err
		})
		require.Equal(t, prober.VerdictSuccess, outcome(t, timeout, h, tc.target).Verdict, name)
		assert.Equal(t, tc.want, waits.Load(), name)
	}
}

// TestUpstreamNoVerdictWithoutPodIP: the kubelet would dial ":port", and so the node itself.
func TestUpstreamNoVerdictWithoutPodIP(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0", nil)
	h := newHandler(t, handlers.Options{})
	for name, probe := range map[string]v1.ProbeHandler{
		"http": {HTTPGet: &v1.HTTPGetAction{}},
		"tcp":  {TCPSocket: &v1.TCPSocketAction{}},
		"grpc": {GRPC: &v1.GRPCAction{}},
	} {
		target := targetOf(t, l.Addr().String(), probe)
		target.Instance.PodIP = ""
		_, err := within(t, timeout, h, target)
		assert.ErrorIs(t, err, handlers.ErrNoPodIP, name)
	}
	target := tcpTarget(t, l.Addr().String())
	target.Instance.PodIP, target.Probe.TCPSocket.Host = "", "127.0.0.1"
	assert.Equal(t, prober.VerdictSuccess, outcome(t, timeout, h, target).Verdict, "a probe that names a host needs no address")
}

func TestPorts(t *testing.T) {
	var dialled []string
	h := newHandler(t, handlers.Options{})
	h.Dial(func(_ context.Context, _, address string) (net.Conn, error) {
		dialled = append(dialled, address)
		return nil, errors.New("no")
	})
	for _, tc := range []struct {
		port intstr.IntOrString
		want string // "" = no verdict
	}{
		{intstr.FromInt32(80), "10.0.0.1:80"},
		{intstr.FromString("web"), "10.0.0.1:8080"},
		{intstr.FromString("8081"), "10.0.0.1:8081"},
		{intstr.FromString("9090"), "10.0.0.1:7070"}, // a name before a number
		{intstr.FromString("nobody"), ""},
		{intstr.FromString(""), ""},
		{intstr.FromInt32(0), ""},
		{intstr.FromInt32(65536), ""},
		{intstr.FromString("65536"), ""},
		{intstr.FromString("-1"), ""},
	} {
		for _, probe := range []v1.ProbeHandler{
			{TCPSocket: &v1.TCPSocketAction{Port: tc.port}}, {HTTPGet: &v1.HTTPGetAction{Port: tc.port}},
		} {
			dialled = nil
			target := targetOf(t, "", probe)
			target.Instance.PodIP = "10.0.0.1"
			target.Container.Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 8080}, {Name: "9090", ContainerPort: 7070}}
			out, err := within(t, timeout, h, target)
			if tc.want == "" {
				assert.ErrorContains(t, err, "neither a port number nor a port of container c", tc.port.String())
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, prober.VerdictFailure, out.Verdict)
			assert.Equal(t, []string{tc.want}, dialled)
		}
	}
}

// TestStoppedAttemptsHaveNoVerdict: a cancelled attempt has no verdict.
func TestStoppedAttemptsHaveNoVerdict(t *testing.T) {
	silent := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }).Addr().String()
	dialing := newHandler(t, handlers.Options{})
	dialing.Dial(func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	usual := newHandler(t, handlers.Options{})
	errStop := errors.New("stopped")
	for name, tc := range map[string]struct {
		handler *handlers.Handler
		probe   v1.ProbeHandler
	}{
		"tcp":  {dialing, v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{}}},
		"http": {usual, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{}}},
		"grpc": {usual, v1.ProbeHandler{GRPC: &v1.GRPCAction{}}},
		"exec": {newHandler(t, handlers.Options{Runner: handlers.RunnerFunc(
			func(ctx context.Context, _ string, _ []string) ([]byte, []byte, int, error) {
				<-ctx.Done()
				return nil, nil, 0, context.Cause(ctx)
			})}), v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		go cancel(errStop)
		_, err := tc.handler.Probe(ctx, targetOf(t, silent, tc.probe))
		assert.ErrorIs(t, err, errStop, name)
	}
}

func TestNoHandler(t *testing.T) {
	h := newHandler(t, handlers.Options{})
	_, err := within(t, timeout, h, targetOf(t, "", v1.ProbeHandler{}))
	assert.ErrorIs(t, err, handlers.ErrNoHandler)
	_, err = h.Probe(t.Context(), prober.Target{})
	assert.ErrorIs(t, err, handlers.ErrNoHandler)
	_, err = within(t, timeout, h, targetOf(t, "", v1.ProbeHandler{Exec: &v1.ExecAction{}}))
	assert.ErrorIs(t, err, handlers.ErrNoRunner)
}
