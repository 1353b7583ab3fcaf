// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// watchClient returns a writer and a request for a handler that upgrades the connection. The context
// of the request ends when the client leaves, or when end is called. Then the connection is closed, so
// that writes to a client that does not read end, too. The caller calls end when no stream of the
// connection is used any more. After end, a read of the handler returns the end of the connection:
// upstream's SPDY server would wait for ever on a stream that was opened right before the end.
func watchClient(w http.ResponseWriter, r *http.Request) (watched http.ResponseWriter, request *http.Request, end func()) {
	ctx, cancel := context.WithCancel(r.Context())
	h := &hijackWatcher{w, ctx, cancel, newAhead(connectionAhead)}
	h.ahead.held = true
	return h, r.WithContext(ctx), func() {
		cancel()
		h.ahead.release()
	}
}

type hijackWatcher struct {
	http.ResponseWriter
	ctx   context.Context
	left  context.CancelFunc
	ahead *ahead
}

// Hijack implements http.Hijacker.
func (h *hijackWatcher) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // nothing is read, so there is no error
	h.ahead.bytes.Write(early)
	watched := &watchedConn{conn, h.ahead}
	context.AfterFunc(h.ctx, func() { watched.Close() })
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	go func() { // ends with the connection
		h.ahead.fill(conn)
		h.left()
	}()
	buffered.Reader.Reset(watched)
	buffered.Writer.Reset(watched)
	return watched, buffered, nil
}

// connectionAhead is the number of bytes of a connection that are read before the protocol takes them.
const connectionAhead = 64 << 10

// watchedConn reads ahead, so that the end of the client is noticed while the protocol does not read.
// Upstream's SPDY server reads nothing after the client's GOAWAY frame.
type watchedConn struct {
	net.Conn
	ahead *ahead
}

// Read implements net.Conn.
func (c *watchedConn) Read(p []byte) (int, error) { return c.ahead.Read(p) }

// Write implements net.Conn. An error closes the connection, and so ends the context of the request.
// The protocol learns of the end by Read.
func (c *watchedConn) Write(p []byte) (int, error) {
	if _, err := c.Conn.Write(p); err != nil {
		c.Close()
	}
	return len(p), nil
}

// Close implements net.Conn.
func (c *watchedConn) Close() error {
	c.ahead.stop()
	return c.Conn.Close()
}

// ahead buffers the bytes of a source before the reader asks for the bytes.
type ahead struct {
	max int // bytes before fill waits for the reader

	mu      sync.Mutex
	changed sync.Cond
	bytes   bytes.Buffer
	err     error // of the source, after the bytes
	held    bool  // Read does not return err yet
	stopped bool
}

func newAhead(max int) *ahead {
	a := &ahead{max: max}
	a.changed.L = &a.mu
	return a
}

// The buffer of fill is small until a read fills the buffer: most sessions are interactive. An empty
// buffer of waiting bytes is released, unless the buffer is small.
const (
	smallAhead = 1 << 10
	largeAhead = 16 << 10
)

// fill reads from the source until an error. After stop, fill drops what the source sends.
func (a *ahead) fill(source io.Reader) {
	buf := make([]byte, smallAhead)
	for {
		n, err := source.Read(buf)
		a.mu.Lock()
		for a.bytes.Len() > a.max && !a.stopped {
			a.changed.Wait()
		}
		if !a.stopped {
			a.bytes.Write(buf[:n])
		}
		a.err = err
		a.changed.Broadcast()
		a.mu.Unlock()
		if err != nil {
			return
		}
		if n == smallAhead {
			buf = make([]byte, largeAhead)
		}
	}
}

// Read implements io.Reader.
func (a *ahead) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.bytes.Len() == 0 && (a.err == nil || a.held) {
		a.changed.Wait()
	}
	if a.bytes.Len() == 0 {
		return 0, a.err
	}
	n, _ := a.bytes.Read(p) // there are bytes
	if a.bytes.Len() == 0 && a.bytes.Cap() > 4*largeAhead {
		a.bytes = bytes.Buffer{}
	}
	a.changed.Broadcast()
	return n, nil
}

// stop tells fill that the reader takes no more bytes.
func (a *ahead) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.changed.Broadcast()
}

// release lets Read return the error of the source.
func (a *ahead) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = false
	a.changed.Broadcast()
}
