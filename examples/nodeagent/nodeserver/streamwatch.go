// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// watchClient returns a writer and a request for a handler that upgrades the connection. The context
// of the request ends when the client leaves or end is called. The connection is closed then, so that
// no write to a client that does not read remains.
func watchClient(w http.ResponseWriter, r *http.Request) (watched http.ResponseWriter, request *http.Request, end func()) {
	ctx, cancel := context.WithCancel(r.Context())
	return &hijackWatcher{w, ctx, cancel}, r.WithContext(ctx), cancel
}

type hijackWatcher struct {
	http.ResponseWriter
	ctx  context.Context
	left context.CancelFunc
}

// Hijack implements http.Hijacker.
func (h *hijackWatcher) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	watched := &watchedConn{buffering: buffering{conn, buffered.Reader}}
	watched.changed.L = &watched.mu
	context.AfterFunc(h.ctx, func() { watched.Close() })
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	go func() { // ends with the connection
		watched.readAhead()
		h.left()
	}()
	return watched, bufio.NewReadWriter(bufio.NewReader(watched), bufio.NewWriter(conn)), nil
}

// maxAhead is the number of bytes that are read before the protocol takes them.
const maxAhead = 64 << 10

// watchedConn reads ahead, so that the end of the client is noticed while the protocol does not read.
// Upstream's SPDY server reads nothing after the client's GOAWAY frame.
type watchedConn struct {
	buffering

	mu      sync.Mutex
	changed sync.Cond
	ahead   []byte
	err     error // of reading, after ahead
	closed  bool
}

// readAhead reads until an error, or until the connection is closed.
func (c *watchedConn) readAhead() {
	buf := make([]byte, 16<<10)
	for {
		n, err := c.buffering.Read(buf)
		c.mu.Lock()
		for len(c.ahead) > maxAhead && !c.closed {
			c.changed.Wait()
		}
		c.ahead = append(c.ahead, buf[:n]...)
		c.err = err
		c.changed.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Read implements net.Conn.
func (c *watchedConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.ahead) == 0 && c.err == nil {
		c.changed.Wait()
	}
	if len(c.ahead) == 0 {
		return 0, c.err
	}
	n := copy(p, c.ahead)
	c.ahead = c.ahead[:copy(c.ahead, c.ahead[n:])]
	c.changed.Broadcast()
	return n, nil
}

// Close implements net.Conn.
func (c *watchedConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	return c.buffering.Close()
}
