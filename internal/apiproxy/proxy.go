// SPDX-License-Identifier: Apache-2.0

package apiproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Options configure a Proxy.
type Options struct {
	// Target is the URL of the server: scheme, host and port.
	Target string
	// Authorities verify the certificate of an https target. Defaults to the system's authorities.
	Authorities *x509.CertPool
	// Certificate is the proxy's certificate for its clients. Clients then use HTTPS, and HTTP/2 if
	// supported. Defaults to nil: plain HTTP/1.1.
	Certificate *tls.Certificate
}

// Proxy is a running proxy. Methods may be called at any time and from several goroutines.
type Proxy struct {
	// URL is where the proxy listens: http:// or https://127.0.0.1:….
	URL string

	transport *http.Transport
	forward   *httputil.ReverseProxy
	server    *http.Server
	served    chan struct{} // closed when the server has ended
	journal   *journal

	mu struct {
		sync.Mutex
		rules  rules
		conns  map[net.Conn]struct{}
		active int           // requests under way
		idle   chan struct{} // nil before Close; closed when active is 0
	}
}

// New starts a proxy. The caller must call Close.
func New(opts Options) (*Proxy, error) {
	target, err := url.Parse(opts.Target)
	if err != nil {
		return nil, fmt.Errorf("Target: %w", err)
	}
	if target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, fmt.Errorf("Target: %q is no URL of a server", opts.Target)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{URL: "http://" + listener.Addr().String(), served: make(chan struct{}), journal: newJournal()}
	p.mu.conns = map[net.Conn]struct{}{}
	p.transport = &http.Transport{
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100,
		TLSClientConfig: &tls.Config{RootCAs: opts.Authorities, MinVersion: tls.VersionTLS12},
	}
	p.forward = newForward(target, p.transport)
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: time.Minute, ErrorLog: zap.NewStdLog(zap.NewNop()),
		ConnState: p.connState, ConnContext: withConn,
	}
	serve := p.server.Serve
	if opts.Certificate != nil {
		p.URL = "https://" + listener.Addr().String()
		p.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*opts.Certificate}, MinVersion: tls.VersionTLS12}
		serve = func(l net.Listener) error { return p.server.ServeTLS(l, "", "") }
	}
	go func() {
		defer close(p.served)
		_ = serve(listener) // Serve returns an error after Close
	}()
	return p, nil
}

// newForward returns a reverse proxy to target. If target does not answer, the connection of the
// client is cut, as without the proxy.
func newForward(target *url.URL, transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// httputil removes parts of the query; the proxy must not.
			r.Out.URL.RawQuery = r.In.URL.RawQuery
		},
		Transport:    transport,
		ErrorLog:     zap.NewStdLog(zap.NewNop()),
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, _ error) { cut(connOf(r)) },
	}
}

// Inject adds a rule after the existing rules, and returns a func that removes the rule. Calling
// the func again has no effect.
func (p *Proxy) Inject(rule Rule) (remove func(), err error) {
	if err := rule.validate(); err != nil {
		return nil, err
	}
	r := &injected{Rule: rule, removed: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.rules = p.mu.rules.with(r)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.rules = p.mu.rules.without(r)
		close(r.removed)
	}), nil
}

// Calls returns the matching calls since the last Reset, including calls in progress, in the order
// of arrival. A nil match means all. The caller must not write to their bodies.
func (p *Proxy) Calls(match func(Call) bool) []Call {
	calls, _ := p.journal.calls(match)
	return calls
}

// Wait returns when at least n calls since the last Reset match, or an error when ctx ends. Each
// call is checked on arrival, when forwarded, and at its end.
func (p *Proxy) Wait(ctx context.Context, n int, match func(Call) bool) error {
	return p.journal.wait(ctx, n, match)
}

// Reset forgets all calls.
func (p *Proxy) Reset() { p.journal.update(func() { p.journal.mu.calls = nil }) }

// CutConnections resets all client connections with all their requests and watches.
func (p *Proxy) CutConnections() {
	p.mu.Lock()
	conns := make([]net.Conn, 0, len(p.mu.conns))
	for c := range p.mu.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	for _, c := range conns {
		cut(c)
	}
}

// Close cuts all connections, and returns when every request is over. Call Close only once.
func (p *Proxy) Close() error {
	p.mu.Lock()
	idle := make(chan struct{})
	p.mu.idle = idle
	if p.mu.active == 0 {
		close(idle)
	}
	p.mu.Unlock()
	err := p.server.Close()
	p.CutConnections() // upgraded connections no longer belong to the server
	<-p.served
	<-idle
	p.transport.CloseIdleConnections()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
