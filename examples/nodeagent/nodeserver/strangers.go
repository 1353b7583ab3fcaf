// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// maxStrangers is the number of connections without an accepted request. Each needs a descriptor, and
// up to maxHeader bytes of memory.
const maxStrangers = 512

// strangers are the connections on which no request was accepted yet. A connection beyond
// maxStrangers closes the oldest connection. So idle connections cannot keep clients out: an
// accepted client is a stranger only during its handshake and first request.
type strangers struct {
	mu struct {
		sync.Mutex
		all   list.List // of net.Conn, the oldest first
		known map[net.Conn]*list.Element
	}
}

// track follows the state of a connection. It is an http.Server's ConnState.
func (s *strangers) track(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if oldest := s.add(conn); oldest != nil {
			go oldest.Close() // may wait for a write in progress, for up to five seconds
		}
	case http.StateClosed, http.StateHijacked:
		s.remove(conn)
	}
}

// add returns the connection to be closed, or nil.
func (s *strangers) add(conn net.Conn) (oldest net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.known == nil {
		s.mu.known = map[net.Conn]*list.Element{}
	}
	s.mu.known[conn] = s.mu.all.PushBack(conn)
	if len(s.mu.known) <= maxStrangers {
		return nil
	}
	oldest = s.mu.all.Remove(s.mu.all.Front()).(net.Conn)
	delete(s.mu.known, oldest)
	return oldest
}

func (s *strangers) remove(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.mu.known[conn]; ok {
		s.mu.all.Remove(e)
		delete(s.mu.known, conn)
	}
}

// connKey is the key of a request's connection in the request's context.
type connKey struct{}

// keep bounds the memory of a new connection, and makes the connection of a request known to its
// context. It is an http.Server's ConnContext.
func keep(ctx context.Context, conn net.Conn) context.Context {
	boundUnsent(conn)
	return context.WithValue(ctx, connKey{}, conn)
}

// accept wraps the handler of accepted requests.
func (s *strangers) accept(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			s.remove(conn)
		}
		next.ServeHTTP(w, r)
	})
}
