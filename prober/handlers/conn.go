// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"net"
	"sync"
	"time"
)

// Limits (time, reads, bytes per read) for waiting until the peer closes the connection first.
const (
	peerTime  = 20 * time.Millisecond
	peerReads = 128
	peerBytes = 512
)

// lines are the connections of one attempt.
type lines struct {
	connect dial

	mu struct {
		sync.Mutex
		all []*conn
		// impatient: the peer will not close first.
		impatient bool
	}
}

// conn is a connection that leaves no TIME_WAIT socket on the local side. The first Close call
// closes the connection; concurrent calls wait for the first.
type conn struct {
	net.Conn
	ctx   context.Context
	lines *lines
	once  sync.Once
	err   error
}

// dial connects for as long as ctx lasts.
func (l *lines) dial(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := l.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, ctx: ctx, lines: l}
	l.mu.Lock()
	l.mu.all = append(l.mu.all, c)
	l.mu.Unlock()
	return c, nil
}

// hurry makes connections close without waiting for the peer.
func (l *lines) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.impatient = true
}

func (l *lines) patient() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mu.impatient
}

// close closes every connection and returns when all are closed.
func (l *lines) close() {
	l.mu.Lock()
	all := l.mu.all
	l.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// Close waits a moment for the peer to close first, and resets the connection otherwise.
func (c *conn) Close() error {
	c.once.Do(func() {
		if !c.peerCloses() {
			reset(c.Conn)
		}
		c.err = c.Conn.Close()
	})
	return c.err
}

// peerCloses reads until the peer has closed the connection or a limit is reached, and reports
// whether the peer has closed it.
func (c *conn) peerCloses() bool {
	if c.ctx.Err() != nil || !c.lines.patient() || c.SetReadDeadline(time.Now().Add(peerTime)) != nil {
		return false
	}
	buf := make([]byte, peerBytes)
	for range peerReads {
		if _, err := c.Read(buf); err != nil {
			timeout, ok := err.(net.Error)
			return !ok || !timeout.Timeout()
		}
	}
	return false
}

// reset makes closing c send a RST. Connections without SetLinger are left unchanged.
func reset(c net.Conn) {
	if tcp, ok := c.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0)
	}
}
