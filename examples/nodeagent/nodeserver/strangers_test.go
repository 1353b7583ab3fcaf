// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
)

// loopback is a server that accepts requests with the header Known. Its path /wait answers
// and then waits for the end of the request.
type loopback struct {
	address string
	close   func()
}

func serveLoopback(t *testing.T) loopback {
	t.Helper()
	guard := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Known") == "" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	wait := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush() // a client that has left needs no answer
		<-r.Context().Done()
	})
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	s, err := nodeserver.New(nodeserver.Options{Guard: guard, Groups: []nodeserver.Group{nodeserver.Handle("/wait", wait), nodeserver.Handle("/ok", nothing)}})
	require.NoError(t, err)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	g := loopback{address: l.Addr().String(), close: func() {
		cancel()
		require.NoError(t, <-ended)
	}}
	return g
}

// dial sends the beginning of a request.
func (g loopback) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp4", g.address)
	require.NoError(t, err)
	_, err = conn.Write([]byte(text))
	require.NoError(t, err)
	return conn
}

// get returns the status of the answer for a client on a connection of its own.
func (g loopback) get(t *testing.T, path string) int {
	t.Helper()
	conn := g.dial(t, "GET "+path+" HTTP/1.1\r\nHost: n\r\nKnown: yes\r\n\r\n")
	defer conn.Close()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	return response.StatusCode
}

// Clients that are not accepted cannot exhaust the node, however many they are: the oldest of their
// connections are closed. Accepted clients are served, and keep their connections.
func TestStrangersAreBounded(t *testing.T) {
	before := goruntime.NumGoroutine()
	g := serveLoopback(t)
	follower := g.dial(t, "GET /wait HTTP/1.1\r\nHost: n\r\nKnown: yes\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(follower), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)

	var open atomic.Int64
	var conns []net.Conn
	for i, text := range []string{"GET /wait HTTP/1.1\r\nHost: n\r\n\r\n", "GET /wait HTTP/1.1\r\n", ""} { // refused, dribbling, silent
		for range 600 {
			conn := g.dial(t, text)
			conns = append(conns, conn)
			open.Add(1)
			go func() { // until the connection is closed
				_, _ = io.Copy(io.Discard, conn)
				open.Add(-1)
			}()
		}
		assert.Equal(t, http.StatusOK, g.get(t, "/ok"), "after %d strangers", 600*(i+1))
	}
	require.Eventually(t, func() bool { return open.Load() <= 512 }, time.Minute, time.Millisecond)
	_, err = follower.Write([]byte("x")) // of the next request
	require.NoError(t, err)
	require.NoError(t, follower.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = follower.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout, "the accepted client is still connected")
	require.True(t, timeout.Timeout())

	g.close()
	for _, conn := range append(conns, follower) {
		conn.Close()
	}
	noneLeft(t, func() int { return int(open.Load()) }, before)
}

// A request whose headers do not end is given up, and so is one with too many of them.
func TestEndlessHeaders(t *testing.T) {
	g := serveLoopback(t)
	defer g.close()
	conn := g.dial(t, "GET /ok HTTP/1.1\r\nKnown: yes\r\n")
	defer conn.Close()
	many := g.dial(t, "GET /ok HTTP/1.1\r\nHost: n\r\nKnown: yes\r\n")
	defer many.Close()
	go func() { // until the server closes the connection
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(many, "Header-%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
				return
			}
		}
	}()
	response, err := http.ReadResponse(bufio.NewReader(many), nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, response.StatusCode)

	for { // one byte at a time keeps no connection open
		if _, err := conn.Write([]byte("X")); err != nil {
			break
		}
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		if _, err := conn.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
			break
		}
	}
	assert.Equal(t, http.StatusOK, g.get(t, "/ok"))
	long := g.dial(t, "GET /ok?command="+strings.Repeat("x", 200<<10)+" HTTP/1.1\r\nHost: n\r\nKnown: yes\r\n\r\n")
	defer long.Close()
	response, err = http.ReadResponse(bufio.NewReader(long), nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, response.StatusCode, "a long command is accepted")
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}
