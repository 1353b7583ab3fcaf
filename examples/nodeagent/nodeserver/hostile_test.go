// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/moby/spdystream/spdy"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/runtime"
)

// upgrade is the request of a client that speaks the protocol by hand.
func upgrade(path, protocol string) string {
	if protocol == "SPDY" {
		return "POST " + path + " HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n" +
			"X-Stream-Protocol-Version: v4.channel.k8s.io\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n"
	}
	return "GET " + path + " HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Protocol: " + protocol + "\r\n\r\n"
}

// connect sends an upgrade request and reads the answer's head.
func connect(t *testing.T, address, path, protocol string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	_, err = conn.Write([]byte(upgrade(path, protocol)))
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	return conn
}

// noneLeft waits until no command runs and the goroutines of before are left.
func noneLeft(t *testing.T, running func() int, before int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); running() > 0 || goruntime.NumGoroutine() > before; {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d commands and %d goroutines are left, before %d:\n%s", running(), goruntime.NumGoroutine(), before, stacks[:goruntime.Stack(stacks, true)])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// hostile are peers that have been accepted. Each returns when the peer has left.
var hostile = map[string]func(t *testing.T, conn net.Conn){
	"leaves at once": func(_ *testing.T, conn net.Conn) { conn.Close() },
	"resets": func(t *testing.T, conn net.Conn) {
		require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
		conn.Close()
	},
	"reads nothing": func(_ *testing.T, conn net.Conn) {
		time.Sleep(100 * time.Millisecond)
		conn.Close()
	},
	"sends garbage": func(_ *testing.T, conn net.Conn) {
		garbage := make([]byte, 64<<10)
		for i := range garbage {
			garbage[i] = byte(rand.Uint32())
		}
		_, _ = conn.Write(garbage) // the server may have closed the connection
		conn.Close()
	},
	"half-closes": func(_ *testing.T, conn net.Conn) {
		_ = conn.(*net.TCPConn).CloseWrite()
		time.Sleep(50 * time.Millisecond)
		conn.Close()
	},
}

// leavesWhileOpening leaves while the server of SPDY opens streams.
func leavesWhileOpening(t *testing.T, conn net.Conn) {
	frames, err := spdy.NewFramer(conn, conn)
	require.NoError(t, err)
	for i, kind := range []string{"error", "stdout"} {
		_ = frames.WriteFrame(&spdy.SynStreamFrame{StreamId: spdy.StreamId(2*i + 1), Headers: http.Header{"Streamtype": {kind}}}) // the server may have closed the connection
	}
	time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
	conn.Close()
}

// Nothing is left of hostile clients: no command, no goroutine.
func TestHostileClients(t *testing.T) {
	c := newContainers(t)
	checkHostile(t, c, c.find, c.running, hostile)
}

func checkHostile(t *testing.T, rt runtime.Runtime, find nodeserver.PodFinder, running func() int, peers map[string]func(*testing.T, net.Conn)) {
	h := newServer(t, nodeserver.Streams(nodeserver.StreamOptions{Pods: find, Runtime: rt}))
	s := httptest.NewServer(h)
	defer s.Close()
	address := strings.TrimPrefix(s.URL, "http://")
	paths := map[string][]string{
		"/exec/ns/web/main?command=cat&input=1&output=1":         {"SPDY", "v4.channel.k8s.io", "v5.channel.k8s.io"},
		"/exec/ns/web/main?command=flood&output=1":               {"SPDY", "v4.channel.k8s.io", "v5.channel.k8s.io"},
		"/exec/ns/web/main?command=sizes&input=1&output=1&tty=1": {"v5.channel.k8s.io"},
		"/portForward/ns/web?ports=8080":                         {"SPDY", "SPDY/3.1+portforward.k8s.io"},
		"/portForward/ns/web?port=8080":                          {"v4.channel.k8s.io"},
	}
	before := goruntime.NumGoroutine()
	for path, protocols := range paths {
		for _, protocol := range protocols {
			for name, peer := range peers {
				t.Run(fmt.Sprint(path, " ", protocol, " ", name), func(t *testing.T) {
					for range 3 {
						peer(t, connect(t, address, path, protocol))
					}
				})
			}
		}
	}
	noneLeft(t, running, before)

	for path, protocols := range paths { // and nothing of connections that the server ends
		if last := protocols[len(protocols)-1]; last != "SPDY" { // whose server waits for streams
			defer connect(t, address, path, last).Close()
		}
	}
	h.Close()
	noneLeft(t, running, before)
}
