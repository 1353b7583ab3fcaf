// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Observer has functions that a Server calls for every request, from the goroutine of the request.
// Each may be nil. They must not block.
type Observer struct {
	// Began is called before the request is authenticated.
	Began func(Request)
	// Ended is called after the end of the answer or of the upgraded connection, with the time since
	// the begin.
	Ended func(Request, time.Duration)
}

// Request describes a request. Each field has few values, whatever clients send.
type Request struct {
	Method string // of HTTP, or "other"
	// Path is the first segment of the path, such as "pods", or the first two segments if the first
	// is "metrics". Path is "other" for paths outside all Groups.
	Path string
	// LongRunning is true for commands, port forwarding and profiles, which last as long as the
	// client wants.
	LongRunning bool
	WebSocket   bool // the request upgrades to a WebSocket
}

// otherLabel stands for all methods and paths that are not known.
const otherLabel = "other"

// longRunning are the paths of long requests.
var longRunning = []string{"exec", "attach", "portForward", "debug"}

// methods are those with a meaning for HTTP.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// describe returns the description of a request. served are the short paths of all endpoints.
func describe(r *http.Request, served map[string]bool) Request {
	d := Request{Method: r.Method, Path: shortPath(r.URL.Path), WebSocket: strings.EqualFold(r.Header.Get("Upgrade"), "websocket")}
	if !slices.Contains(methods, d.Method) {
		d.Method = otherLabel
	}
	if !served[d.Path] {
		d.Path = otherLabel
	}
	d.LongRunning = slices.Contains(longRunning, d.Path)
	return d
}

// shortPath returns the first segment of a path, and the second one below /metrics.
func shortPath(path string) string {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if second, _, _ := strings.Cut(rest, "/"); first == "metrics" && second != "" {
		return first + "/" + second
	}
	return first
}

// shortPaths returns the short paths of all routes.
func shortPaths(groups []Group) map[string]bool {
	all := map[string]bool{}
	for _, g := range groups {
		for _, r := range g.routes {
			all[shortPath(r.pattern)] = true
		}
	}
	return all
}

// observe reports the begin of a request, and returns the function that reports the end.
func (o Observer) observe(r Request) (end func()) {
	began := time.Now()
	if o.Began != nil {
		o.Began(r)
	}
	return func() {
		if o.Ended != nil {
			o.Ended(r, time.Since(began))
		}
	}
}
