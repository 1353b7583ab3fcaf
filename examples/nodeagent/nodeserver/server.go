// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/lifecycle"
)

// Options configure a Server.
type Options struct {
	// Guard wraps the handler of all endpoints. It authenticates and authorizes every request,
	// including requests for unknown paths. Required.
	Guard func(http.Handler) http.Handler
	// Groups are the endpoints to serve. Defaults to none: every request is answered with 404.
	Groups []Group
	// Observer is told of requests. Defaults to none.
	Observer Observer
	// Logger receives errors that a client cannot be told. Defaults to none.
	Logger *zap.Logger
}

// Group is a set of endpoints that are served, or left out, together. The functions of this package
// construct Groups.
type Group struct{ routes []route }

// route is one endpoint.
type route struct {
	method  string // empty: all methods
	pattern string // a path pattern of http.ServeMux
	handler http.Handler
}

// get returns a Group with one endpoint for the method GET.
func get(pattern string, h http.HandlerFunc) Group {
	return Group{[]route{{http.MethodGet, pattern, h}}}
}

// Handle serves a handler of the caller, such as metrics, for all methods under a path. A path that
// ends in a slash stands for everything below it.
func Handle(path string, h http.Handler) Group { return Group{[]route{{"", path, h}}} }

// Server is an http.Handler with the endpoints of a kubelet.
type Server struct {
	handler   http.Handler
	observer  Observer
	served    map[string]bool // short paths
	log       *zap.Logger
	strangers strangers

	requests lifecycle.Calls
	ending   context.Context // ends with Close
	end      context.CancelFunc
}

// New validates opts. Errors name the field or the pattern. New starts no goroutine.
func New(opts Options) (*Server, error) {
	if opts.Guard == nil {
		return nil, errors.New("nodeserver: Options.Guard is required")
	}
	opts.Logger = cmp.Or(opts.Logger, zap.NewNop())
	mux, err := newMux(opts.Groups)
	if err != nil {
		return nil, err
	}
	s := &Server{observer: opts.Observer, served: shortPaths(opts.Groups), log: opts.Logger}
	s.handler = opts.Guard(s.strangers.accept(mux))
	s.ending, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Open returns a handler of groups for a port without authentication.
func Open(groups ...Group) (http.Handler, error) { return newMux(groups) }

// newMux registers the routes. A mux panics on an invalid or repeated pattern, and only Handle takes
// patterns of the caller.
func newMux(groups []Group) (*http.ServeMux, error) {
	mux, known := http.NewServeMux(), map[string]bool{}
	for _, g := range groups {
		for _, r := range g.routes {
			key := r.method + " " + r.pattern
			switch {
			case r.handler == nil:
				return nil, fmt.Errorf("nodeserver: the path %q has no handler", r.pattern)
			case r.method == "" && (!strings.HasPrefix(r.pattern, "/") || strings.ContainsAny(r.pattern, "{} ") || path.Clean(r.pattern) != strings.TrimSuffix(r.pattern, "/")):
				return nil, fmt.Errorf("nodeserver: the path %q: want a clean path that begins with a slash, without braces", r.pattern)
			case known[key]:
				return nil, fmt.Errorf("nodeserver: the path %q is served twice", r.pattern)
			}
			known[key] = true
			mux.Handle(strings.TrimPrefix(key, " "), r.handler)
		}
	}
	return mux, nil
}

// maxHeader is the number of bytes of a request's first line and headers, with the arguments of a
// command. The kubelet reads 1 MiB of strangers.
const maxHeader = 256 << 10

// Serve serves a listener until ctx ends, and returns when every request has been answered and every
// connection is closed. It bounds the time and the memory that clients without an accepted request
// take. Errors of single connections go to the Logger, at debug level. The error is that of the
// listener, or nil after the end of ctx.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	quiet, err := zap.NewStdLogAt(s.log, zap.DebugLevel)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: s, ErrorLog: quiet, ConnState: s.strangers.track, ConnContext: keep,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second, MaxHeaderBytes: maxHeader,
	}
	defer s.Close() // an http.Server does not end upgraded connections
	defer server.Close()
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("nodeserver: %w", err)
	}
	return nil
}

// ServeHTTP answers a request. After Close every request is answered with 503.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.requests.Begin() {
		http.Error(w, "the node agent is stopping", http.StatusServiceUnavailable)
		return
	}
	defer s.requests.End()
	defer s.observer.observe(describe(r, s.served))()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	s.handler.ServeHTTP(w, r.WithContext(ctx))
}

// Close ends the contexts of all requests, and waits until every request has been answered and every
// upgraded connection is closed. Close may be called more than once.
func (s *Server) Close() {
	s.end()
	s.requests.Close()
}
