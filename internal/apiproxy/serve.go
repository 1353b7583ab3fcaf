// SPDX-License-Identifier: Apache-2.0

package apiproxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"time"
)

// maxBody is larger than any body that an API server accepts.
const maxBody = 16 << 20

// serve applies the rules to a request.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	req := parse(r)
	rules, ok := p.enter()
	if !ok {
		cut(connOf(r))
		return
	}
	out := &recorder{ResponseWriter: w}
	defer p.leave(connOf(r), out)
	body, err := readBody(r)
	call := p.journal.begin(Call{Request: req, Body: body, At: time.Now()})
	defer p.journal.update(func() { call.Done = time.Now() })
	if err != nil {
		cut(connOf(r)) // the client disconnected, or the body is too large
		return
	}
	applied := rules.take(req)
	for _, rule := range applied {
		if !rule.delay(r) {
			return
		}
	}
	out.code = func(code int) { p.journal.update(func() { call.Code = code }) }
	var end *injected // nil if no rule ends the request
	if n := len(applied); n > 0 {
		end = applied[n-1]
	}
	switch then := end.outcome(); then {
	case Answer:
		answer(out, req, end.Rule)
	case Hang:
		end.hang(r)
	case Cut:
		cut(connOf(r))
	case Forward, Lose:
		p.journal.update(func() { call.Forwarded = time.Now() })
		if then == Forward {
			p.forward.ServeHTTP(out, r)
			return
		}
		p.forward.ServeHTTP(discard{http.Header{}}, r)
		cut(connOf(r))
	}
}

// enter notes a request under way and returns the rules in force. After Close the request is
// refused.
func (p *Proxy) enter() (rules, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.idle != nil {
		return nil, false
	}
	p.mu.active++
	return p.mu.rules, true
}

// leave records the end of a request and of its connection if upgraded.
func (p *Proxy) leave(c net.Conn, out *recorder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if out.hijacked {
		delete(p.mu.conns, c)
	}
	p.mu.active--
	if p.mu.active == 0 && p.mu.idle != nil {
		close(p.mu.idle)
	}
}

// outcome returns the outcome of a request whose last rule is r. r may be nil.
func (r *injected) outcome() Outcome {
	if r == nil {
		return Forward
	}
	return r.Then
}

// hang waits until the client has given up, or cuts the connection when the rule is removed.
func (r *injected) hang(hr *http.Request) {
	select {
	case <-hr.Context().Done():
	case <-r.removed:
		cut(connOf(hr))
	}
}

// delay waits, and reports whether the client is still there.
func (r *injected) delay(hr *http.Request) bool {
	if r.Delay == 0 {
		return true
	}
	timer := time.NewTimer(r.Delay)
	defer timer.Stop()
	select {
	case <-hr.Context().Done():
		return false
	case <-timer.C:
	case <-r.removed:
	}
	return true
}

// readBody reads the body of a request and replaces it by a copy.
func readBody(r *http.Request) ([]byte, error) {
	if r.Header.Get("Upgrade") != "" || r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil || len(body) == 0 {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// recorder passes the status code sent to the client to code.
type recorder struct {
	http.ResponseWriter
	code     func(int)
	hijacked bool
}

// WriteHeader records and sends the code. Informational codes are sent only.
func (w *recorder) WriteHeader(code int) {
	if code >= http.StatusOK {
		w.code(code)
	}
	w.ResponseWriter.WriteHeader(code)
}

// Hijack takes over the connection for an upgrade.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.hijacked = true
		w.code(http.StatusSwitchingProtocols)
	}
	return c, rw, err
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// discard drops an answer.
type discard struct{ header http.Header }

// Header is thrown away.
func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader does nothing.
func (d discard) WriteHeader(int) {}

// FlushError does nothing; httputil requires the method.
func (d discard) FlushError() error { return nil }
