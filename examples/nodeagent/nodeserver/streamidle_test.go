// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/runtime"
)

// pings is the time between pings of the clients below. kubectl sends one every five seconds.
const pings = 20 * time.Millisecond

// Sessions without data end, although their clients send pings (kubernetes#131992: the kubelet reads
// streamingConnectionIdleTimeout nowhere, and the pings of a client reset the runtime's own timeout).
func TestUpstream131992IdleSessionsEnd(t *testing.T) {
	s, c := newSessions(t), newContainers(t)
	for name, backend := range map[string]struct {
		runtime runtime.Runtime
		find    nodeserver.PodFinder
		running func() int
		told    []string // protocols whose client is told the reason
		port    int
	}{
		"session": {s, s.find, s.running, []string{"v5.channel.k8s.io", "v4.channel.k8s.io", "SPDY"}, silent(t)},
		"proxy":   {c, c.find, c.running, []string{"v5.channel.k8s.io"}, 8080},
	} {
		h := newServer(t, nodeserver.Streams(nodeserver.StreamOptions{Pods: backend.find, Runtime: backend.runtime, IdleTimeout: 300 * time.Millisecond}))
		server := httptest.NewServer(h)
		t.Cleanup(func() {
			h.Close()
			server.Close()
		})
		const cat = "/exec/ns/web/main?command=cat&input=1&output=1"
		for protocol, session := range map[string]func(*testing.T) error{
			"v5.channel.k8s.io": func(t *testing.T) error { return pinged(t, server.URL, cat, "v5.channel.k8s.io") },
			"v4.channel.k8s.io": func(t *testing.T) error { return pinged(t, server.URL, cat, "v4.channel.k8s.io") },
			"SPDY": func(t *testing.T) error {
				transport, upgrader, target := overSPDY(t, server.URL+cat)
				client, err := remotecommand.NewSPDYExecutorForTransports(transport, upgrader, "POST", target)
				require.NoError(t, err)
				nothing, w := io.Pipe()
				defer w.Close()
				return client.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: nothing, Stdout: io.Discard})
			},
			"ports over SPDY":     func(t *testing.T) error { return forwarded(t, server.URL, false, backend.port) },
			"ports over a tunnel": func(t *testing.T) error { return forwarded(t, server.URL, true, backend.port) },
			"ports over v4": func(t *testing.T) error {
				return pinged(t, server.URL, "/portForward/ns/web?port="+strconv.Itoa(backend.port), "v4.channel.k8s.io")
			},
		} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				err := session(t)
				if name != "proxy" || protocol != "SPDY" { // client-go takes the end of the connection for that of the command
					require.Error(t, err)
				}
				for _, told := range backend.told {
					if protocol == told {
						assert.ErrorContains(t, err, "no data for 300ms")
					}
				}
				require.Eventually(t, func() bool { return backend.running() == 0 }, time.Minute, time.Millisecond)
			})
		}
	}
}

// silent is a TCP server that accepts connections, and does nothing.
func silent(t *testing.T) (port int) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// pinged sends pings over a WebSocket, and returns the text of the server and the end of the
// connection.
func pinged(t *testing.T, server, path, protocol string) error {
	conn := dialWebSocket(t, server, path, protocol)
	stop, stopped := make(chan struct{}), make(chan struct{})
	defer func() {
		close(stop)
		<-stopped
	}()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(pings):
				_ = conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Minute)) // the reader sees the end
			}
		}
	}()
	var text strings.Builder
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
				require.NoError(t, err, "the session does not end")
			}
			return fmt.Errorf("%s: %w", text.String(), err)
		}
		text.Write(message)
	}
}

// overSPDY returns a transport whose connections send pings.
func overSPDY(t *testing.T, target string) (http.RoundTripper, clientspdy.Upgrader, *url.URL) {
	u, err := url.Parse(target)
	require.NoError(t, err)
	transport, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{TLS: &tls.Config{}, PingPeriod: pings})
	require.NoError(t, err)
	return transport, clientspdy.NewUpgraderForStreaming(transport), u
}

// forwarded opens a connection to a port, and returns the end of the forwarding.
func forwarded(t *testing.T, server string, tunnelled bool, port int) error {
	transport, upgrader, target := overSPDY(t, server+"/portForward/ns/web")
	dialer := clientspdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", target)
	if tunnelled {
		var err error
		dialer, err = portforward.NewSPDYOverWebsocketDialer(target, &rest.Config{})
		require.NoError(t, err)
	}
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(port)}, stop, ready, io.Discard, io.Discard)
	require.NoError(t, err)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		require.NoError(t, err, "the connection is accepted")
	}
	ports, err := forwarder.GetPorts()
	require.NoError(t, err)
	conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	require.NoError(t, err)
	defer conn.Close()
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		close(stop)
		return <-ended
	}
}
