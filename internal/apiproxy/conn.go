// SPDX-License-Identifier: Apache-2.0

package apiproxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

type connKey struct{}

// withConn stores the connection of a request for connOf.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of a request, or nil for a connection of another server.
func connOf(r *http.Request) net.Conn {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	return c
}

// connState keeps the list of open connections.
func (p *Proxy) connState(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.mu.conns[c] = struct{}{}
	case http.StateClosed: // an upgraded connection ends with its request
		delete(p.mu.conns, c)
	}
}

// cut resets a connection, without closing HTTP or TLS.
func cut(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if c == nil {
		return
	}
	if plain, ok := c.(*net.TCPConn); ok {
		_ = plain.SetLinger(0)
	}
	_ = c.Close()
}
