// SPDX-License-Identifier: Apache-2.0

package handlers_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/handlers"
)

// timeout is the timeout of probes with an expected answer.
const timeout = 20 * time.Second

// brief is the timeout of probes without an expected answer in time.
const brief = 100 * time.Millisecond

func newHandler(t testing.TB, o handlers.Options) *handlers.Handler {
	t.Helper()
	h, err := handlers.New(o)
	require.NoError(t, err)
	return h
}

// targetOf is a target at an address host:port, or a container with an ID.
func targetOf(t testing.TB, address string, probe v1.ProbeHandler) prober.Target {
	t.Helper()
	target := prober.Target{
		Pod: &v1.Pod{}, Container: &v1.Container{Name: "c"}, Probe: &v1.Probe{ProbeHandler: probe},
		Type: prober.Liveness, Instance: prober.Instance{ID: "test://c1"},
	}
	if address == "" {
		return target
	}
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	target.Instance.PodIP = host
	if probe.HTTPGet != nil {
		probe.HTTPGet.Port = intstr.FromInt32(int32(number))
	}
	if probe.TCPSocket != nil {
		probe.TCPSocket.Port = intstr.FromInt32(int32(number))
	}
	if probe.GRPC != nil {
		probe.GRPC.Port = int32(number)
	}
	return target
}

// within makes one attempt with the timeout d.
func within(t testing.TB, d time.Duration, h prober.Handler, target prober.Target) (prober.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return h.Probe(ctx, target)
}

// outcome is within for an attempt that must have a verdict.
func outcome(t testing.TB, d time.Duration, h prober.Handler, target prober.Target) prober.Outcome {
	t.Helper()
	out, err := within(t, d, h, target)
	require.NoError(t, err)
	return out
}

// get makes an httpGet probe of a server and path, changed by edits.
func get(t testing.TB, server *httptest.Server, path string, edits ...func(*v1.HTTPGetAction)) prober.Target {
	t.Helper()
	action := &v1.HTTPGetAction{Path: path, Scheme: v1.URISchemeHTTP}
	if server.TLS != nil {
		action.Scheme = v1.URISchemeHTTPS
	}
	for _, edit := range edits {
		edit(action)
	}
	return targetOf(t, server.Listener.Addr().String(), v1.ProbeHandler{HTTPGet: action})
}

func header(name, value string) func(*v1.HTTPGetAction) {
	return func(a *v1.HTTPGetAction) {
		a.HTTPHeaders = append(a.HTTPHeaders, v1.HTTPHeader{Name: name, Value: value})
	}
}

func h2c(a *v1.HTTPGetAction) { a.Protocol = new(v1.HTTPProtocolHTTP2) }

// serve is a plain HTTP server for one test.
func serve(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

// listen accepts connections and gives each to f, which may be nil.
func listen(t testing.TB, network, address string, f func(net.Conn)) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skipf("cannot listen on %s: %v", address, err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if f != nil {
					f(c)
				}
			}()
		}
	}()
	return l
}

// closedPort returns an address without a listener.
func closedPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// ownLoopback returns an address with port 0 that no other test uses, if the system has more than one loopback address:
// a port of 127.0.0.1 may be used again within the minute that its sockets stay in TIME_WAIT.
func ownLoopback() string {
	if goruntime.GOOS != "linux" {
		return "127.0.0.1:0"
	}
	return fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}

// timeWaits counts the local sockets in TIME_WAIT after a connection to address, an IPv4 address.
func timeWaits(t testing.TB, address string) int {
	t.Helper()
	peer, err := netip.ParseAddrPort(address)
	require.NoError(t, err)
	const timeWait = "06"
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Skip("this system does not tell its connections in /proc")
	}
	ip := peer.Addr().As4()
	remote := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), peer.Port())
	n := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[2] == remote && fields[3] == timeWait {
			n++
		}
	}
	return n
}
