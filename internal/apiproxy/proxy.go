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

// Options are what a proxy can be told.
type Options struct {
	// Target is the URL of the server: scheme, host and port.
	Target string
	// Authorities are what the certificate of an https target is checked against.
	// Defaults to the system's.
	Authorities *x509.CertPool
	// Certificate is what the proxy shows its clients, which then speak HTTPS, and
	// HTTP/2 if they like. Defaults to none: plain HTTP/1.1.
	Certificate *tls.Certificate
}

// Proxy is a running proxy. Its methods may be called at any time and from several
// goroutines.
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

// New starts a proxy that the caller has to Close.
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
		_ = serve(listener) // it ends when it is closed
	}()
	return p, nil
}

// newForward returns what carries requests to target. Where that does not answer,
// its client sees what it would see without the proxy: a connection that ends.
func newForward(target *url.URL, transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// What httputil removes, for the sake of clients elsewhere.
			r.Out.URL.RawQuery = r.In.URL.RawQuery
		},
		Transport:    transport,
		ErrorLog:     zap.NewStdLog(zap.NewNop()),
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, _ error) { cut(connOf(r)) },
	}
}

// Inject puts a rule in force after those that are, and returns what removes it,
// which can be repeated.
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

// Calls returns the calls since the last Reset that match, nil meaning all, in the
// order of their coming; those under way, too. The caller does not change their
// bodies.
func (p *Proxy) Calls(match func(Call) bool) []Call {
	calls, _ := p.journal.calls(match)
	return calls
}

// Wait returns when at least n calls since the last Reset match, or an error when
// ctx ends. A call is looked at when it comes, when it is forwarded and when it
// is over.
func (p *Proxy) Wait(ctx context.Context, n int, match func(Call) bool) error {
	return p.journal.wait(ctx, n, match)
}

// Reset forgets all calls.
func (p *Proxy) Reset() { p.journal.update(func() { p.journal.mu.calls = nil }) }

// CutConnections resets all connections that clients have, with all that is under
// way on them: watches, too.
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

// Close cuts all connections, and returns when every request is over. It is called
// once.
func (p *Proxy) Close() error {
	p.mu.Lock()
	idle := make(chan struct{})
	p.mu.idle = idle
	if p.mu.active == 0 {
		close(idle)
	}
	p.mu.Unlock()
	err := p.server.Close()
	p.CutConnections() // those that were upgraded are not the server's any more
	<-p.served
	<-idle
	p.transport.CloseIdleConnections()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
