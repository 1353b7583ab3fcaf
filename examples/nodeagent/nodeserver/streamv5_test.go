// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dialWebSocket connects a client that speaks the messages of a protocol by hand.
func dialWebSocket(t *testing.T, server, path string, protocols ...string) *websocket.Conn {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: protocols}
	conn, response, err := dialer.DialContext(t.Context(), strings.Replace(server, "http:", "ws:", 1)+path, nil)
	require.NoError(t, err)
	response.Body.Close()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() { conn.Close() })
	return conn
}

func send(t *testing.T, conn *websocket.Conn, message string) {
	t.Helper()
	require.NoError(t, conn.WriteMessage(websocket.BinaryMessage, []byte(message)))
}

// receive returns all messages of each channel, and the code of the end.
func receive(t *testing.T, conn *websocket.Conn) (channels map[byte]string, code int) {
	t.Helper()
	channels = map[byte]string{}
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			var closed *websocket.CloseError
			require.ErrorAs(t, err, &closed)
			return channels, closed.Code
		}
		require.NotEmpty(t, message)
		channels[message[0]] += string(message[1:])
	}
}

// The messages of a session are those of the kubelet.
func TestMessagesOfV5(t *testing.T) {
	s := newSessions(t)
	server := serveStreams(t, s, s.find)
	const cat, success = "/exec/ns/web/main?command=cat&input=1&output=1", `{"metadata":{},"status":"Success"}`

	conn := dialWebSocket(t, server, cat, "v5.channel.k8s.io", "v4.channel.k8s.io")
	assert.Equal(t, "v5.channel.k8s.io", conn.Subprotocol())
	_, first, err := conn.ReadMessage()
	require.NoError(t, err)
	assert.Equal(t, []byte{1}, first, "the command is connected")
	send(t, conn, "\x00some ")
	send(t, conn, "\x02dropped, as stderr is not of the client")
	send(t, conn, "\x04dropped, as there is no terminal")
	send(t, conn, "\x00text")
	send(t, conn, "\xff\x00")
	got, code := receive(t, conn)
	assert.Equal(t, map[byte]string{1: "some text", 3: success}, got)
	assert.Equal(t, websocket.CloseNormalClosure, code)

	conn = dialWebSocket(t, server, "/exec/ns/web/main?command=exit&error=1", "v5.channel.k8s.io")
	got, _ = receive(t, conn)
	assert.Equal(t, map[byte]string{2: "err", 3: `{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: exit status 3",` +
		`"reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}`}, got)

	for _, broken := range []string{"\xff", "\xff\x00\x00", "\xff\x05"} {
		conn = dialWebSocket(t, server, cat, "v5.channel.k8s.io")
		send(t, conn, broken)
		got, _ = receive(t, conn)
		assert.NotContains(t, got[1], "text", "the session has ended")
	}

	_, response, err := (&websocket.Dialer{Subprotocols: []string{"v6.channel.k8s.io"}}).DialContext(t.Context(), strings.Replace(server, "http:", "ws:", 1)+cat, nil)
	require.Error(t, err)
	response.Body.Close()
	assert.Equal(t, http.StatusForbidden, response.StatusCode)
}

// A command that reads nothing does not keep a client from being heard: its pings are answered, its
// terminal sizes arrive, and its end is noticed.
func TestClientIsHeardBehindItsInput(t *testing.T) {
	for name, path := range map[string]string{
		"pings": "/exec/ns/web/main?command=forever&input=1&output=1",
		"sizes": "/exec/ns/web/main?command=sizes&input=1&output=1&tty=1",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSessions(t)
			conn := dialWebSocket(t, serveStreams(t, s, s.find), path, "v5.channel.k8s.io")
			pong := make(chan struct{}, 1)
			conn.SetPongHandler(func(string) error {
				pong <- struct{}{}
				return nil
			})
			for range 16 {
				send(t, conn, "\x00"+strings.Repeat("x", 64<<10-1))
			}
			if name == "sizes" {
				send(t, conn, "\x04"+`{"Width":80,"Height":24}`)
				var out bytes.Buffer
				for range 2 { // connected, the size
					_, message, err := conn.ReadMessage()
					require.NoError(t, err)
					out.Write(message[1:])
				}
				assert.Equal(t, "80x24\n", out.String())
				return
			}
			require.NoError(t, conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Minute)))
			left := make(chan error, 1)
			go func() { // until the connection is closed
				for {
					if _, _, err := conn.NextReader(); err != nil {
						left <- err
						return
					}
				}
			}()
			select {
			case <-pong:
			case err := <-left:
				require.NoError(t, err, "no answer to a ping")
			}
			require.Equal(t, 1, s.running())
			conn.Close()
			require.Eventually(t, func() bool { return s.running() == 0 }, time.Minute, time.Millisecond)
		})
	}
}

// A client whose input a command does not take receives the output and the status all the same.
func TestStatusBehindUnreadInput(t *testing.T) {
	for name, rt := range map[string]func() string{
		"session": func() string { s := newSessions(t); return serveStreams(t, s, s.find) },
		"proxy":   func() string { c := newContainers(t); return serveStreams(t, c, c.find) },
	} {
		t.Run(name, func(t *testing.T) {
			server := rt()
			for range 20 {
				conn := dialWebSocket(t, server, "/exec/ns/web/main?command=exit&input=1&output=1&error=1", "v5.channel.k8s.io")
				go func() { // until the connection is closed
					for conn.WriteMessage(websocket.BinaryMessage, make([]byte, 32<<10)) == nil {
						continue
					}
				}()
				channels := map[byte]string{}
				for channels[3] == "" {
					_, message, err := conn.ReadMessage()
					require.NoError(t, err)
					channels[message[0]] += string(message[1:])
				}
				assert.Equal(t, "out", channels[1])
				assert.Equal(t, "err", channels[2])
				conn.Close()
			}
		})
	}
}

// A tunnel is refused with the answer of the handler behind it, or of the WebSocket.
func TestRefusedTunnels(t *testing.T) {
	c := newContainers(t)
	server := serveStreams(t, c, c.find)
	for name, want := range map[string]struct {
		path, protocol, key string
		code                int
		text                string
	}{
		"unknown pod":      {"/portForward/ns/other", "SPDY/3.1+portforward.k8s.io", "MDEyMzQ1Njc4OWFiY2RlZg==", 404, "pod does not exist"},
		"unknown protocol": {"/portForward/ns/web", "SPDY/3.1+other.k8s.io", "MDEyMzQ1Njc4OWFiY2RlZg==", 403, "unable to upgrade: unable to negotiate protocol: client supports [other.k8s.io], server accepts [portforward.k8s.io]"},
		"no key":           {"/portForward/ns/web", "SPDY/3.1+portforward.k8s.io", "", 400, "Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), "GET", server+want.path, nil)
			require.NoError(t, err)
			r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Protocol": {want.protocol}}
			if want.key != "" {
				r.Header.Set("Sec-Websocket-Key", want.key)
			}
			response, err := http.DefaultTransport.RoundTrip(r)
			require.NoError(t, err)
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			assert.Equal(t, want.code, response.StatusCode)
			assert.Contains(t, string(text), want.text)
		})
	}
}
