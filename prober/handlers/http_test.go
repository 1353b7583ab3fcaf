// SPDX-License-Identifier: Apache-2.0

package handlers_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/handlers"
)

func TestHTTPStatus(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		w.WriteHeader(code)
		if code != http.StatusNoContent && code != http.StatusNotModified {
			_, _ = io.WriteString(w, "secret")
		}
	})
	h := newHandler(t, handlers.Options{})
	for code, want := range map[int]prober.Outcome{
		200: {Verdict: prober.VerdictSuccess, Output: "secret"},
		204: {Verdict: prober.VerdictSuccess},
		299: {Verdict: prober.VerdictSuccess, Output: "secret"},
		304: {Verdict: prober.VerdictWarning, Output: "Probe terminated redirects, Response body: "},
		302: {Verdict: prober.VerdictWarning, Output: "Probe terminated redirects, Response body: secret"},
		400: {Verdict: prober.VerdictFailure, Output: "HTTP probe failed with statuscode: 400"},
		503: {Verdict: prober.VerdictFailure, Output: "HTTP probe failed with statuscode: 503"},
	} {
		assert.Equal(t, want, outcome(t, timeout, h, get(t, s, fmt.Sprintf("/%d", code))), "%d", code)
	}
}

// TestHTTPRequest checks the requests received by a server.
func TestHTTPRequest(t *testing.T) {
	var seen *http.Request
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { seen = r })
	address := s.Listener.Addr().String()
	usual := http.Header{"Accept": {"*/*"}, "Connection": {"close"}, "User-Agent": {handlers.UserAgent}}
	with := func(change func(http.Header)) http.Header {
		h := usual.Clone()
		change(h)
		return h
	}
	tests := []struct {
		name, path string
		edits      []func(*v1.HTTPGetAction)
		uri, host  string
		header     http.Header
	}{
		{"plain", "/healthz", nil, "/healthz", address, usual},
		{"no path", "", nil, "/", address, usual},
		{"query", "/a?b=c&d", nil, "/a?b=c&d", address, usual},
		{"no slash", "healthz", nil, "/healthz", address, usual},
		{"a path that is no URL", "/%zz", nil, "/%25zz", address, usual},
		{"a URL loses its host", "http://example.org/x?y", nil, "/x?y", address, usual},
		{"user agent", "/", []func(*v1.HTTPGetAction){header("user-agent", "me")}, "/", address,
			with(func(h http.Header) { h.Set("User-Agent", "me") })},
		{"no user agent", "/", []func(*v1.HTTPGetAction){header("User-Agent", "")}, "/", address,
			with(func(h http.Header) { h.Del("User-Agent") })},
		{"accept", "/", []func(*v1.HTTPGetAction){header("Accept", "text/plain")}, "/", address,
			with(func(h http.Header) { h.Set("Accept", "text/plain") })},
		{"no accept", "/", []func(*v1.HTTPGetAction){header("Accept", "")}, "/", address,
			with(func(h http.Header) { h.Del("Accept") })},
		{"repeated", "/", []func(*v1.HTTPGetAction){header("x-a", "1"), header("X-A", "2")}, "/", address,
			with(func(h http.Header) { h["X-A"] = []string{"1", "2"} })},
		{"host", "/", []func(*v1.HTTPGetAction){header("host", "example.org")}, "/", "example.org", usual},
		{"scheme in capitals", "/", []func(*v1.HTTPGetAction){func(a *v1.HTTPGetAction) { a.Scheme = "" }}, "/", address, usual},
	}
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	h := newHandler(t, handlers.Options{})
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			out := outcome(t, timeout, h, get(t, s, tc.path, tc.edits...))
			require.Equal(t, prober.VerdictSuccess, out.Verdict, out.Output)
			assert.Equal(t, tc.uri, seen.RequestURI)
			assert.Equal(t, tc.host, seen.Host)
			assert.Equal(t, tc.header, seen.Header)
			assert.Equal(t, http.MethodGet, seen.Method)
		})
	}
}

func TestHTTPRedirects(t *testing.T) {
	mux := http.NewServeMux()
	var hosts []string
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "other port") })
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host)
		_, _ = io.WriteString(w, "arrived")
	})
	s := serve(t, mux.ServeHTTP)
	for path, to := range map[string]string{
		"/here": "/ok", "/loop": "/loop", "/away": "http://localhost:1/ok", "/port": other.URL,
		"/dead": "http://" + closedPort(t) + "/?token=s3cret",
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
	}
	h := newHandler(t, handlers.Options{})

	assert.Equal(t, prober.Outcome{Verdict: prober.VerdictSuccess, Output: "arrived"}, outcome(t, timeout, h, get(t, s, "/here")))
	assert.Equal(t, "other port", outcome(t, timeout, h, get(t, s, "/port")).Output, "only the host name matters")
	out := outcome(t, timeout, h, get(t, s, "/away"))
	assert.Equal(t, prober.VerdictWarning, out.Verdict, "a redirect elsewhere is not followed")
	assert.Contains(t, out.Output, "Probe terminated redirects")
	out = outcome(t, timeout, h, get(t, s, "/loop"))
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.Contains(t, out.Output, "stopped after 10 redirects")
	out = outcome(t, timeout, h, get(t, s, "/dead"))
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.NotContains(t, out.Output, "s3cret")

	hosts = nil
	outcome(t, timeout, h, get(t, s, "/here", header("Host", "example.org")))
	assert.Equal(t, []string{"example.org"}, hosts, "a custom Host survives a relative redirect")
}

// TestUpstreamBodyThatHangsIsAFailure: in the kubelet the verdict is thrown away, so such a server is never unhealthy.
func TestUpstreamBodyThatHangsIsAFailure(t *testing.T) {
	stop := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			w.Header().Set("Content-Length", "100")
		}
		_, _ = io.WriteString(w, "begin")
		w.(http.Flusher).Flush()
		if r.URL.Path == "/hangs" {
			<-stop
		}
		panic(http.ErrAbortHandler) // breaks the connection
	})
	t.Cleanup(func() { close(stop) })
	h := newHandler(t, handlers.Options{})
	for path, d := range map[string]struct{ want string }{
		"/hangs":  {"reading the body: context deadline exceeded"},
		"/breaks": {"reading the body: unexpected EOF"},
		"/short":  {"reading the body: unexpected EOF"},
	} {
		limit := timeout
		if path == "/hangs" {
			limit = brief
		}
		out := outcome(t, limit, h, get(t, s, path))
		assert.Equal(t, prober.VerdictFailure, out.Verdict, path)
		assert.Contains(t, out.Output, d.want, path)
	}
}

func TestHTTPBodyIsCut(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 1 << 16 {
			if _, err := io.WriteString(w, strings.Repeat("€", 100)); err != nil {
				return
			}
		}
	})
	out := outcome(t, timeout, newHandler(t, handlers.Options{}), get(t, s, "/"))
	assert.Equal(t, prober.VerdictSuccess, out.Verdict)
	assert.Equal(t, prober.MaxOutput/3*3, len(out.Output), "between two runes")
	assert.True(t, utf8.ValidString(out.Output))
}

// TestHTTPTransportErrors: any transport error is a failure, and its text contains no data of the server.
func TestHTTPTransportErrors(t *testing.T) {
	h := newHandler(t, handlers.Options{})
	at := func(address string) prober.Target {
		return targetOf(t, address, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/p?token=s3cret"}})
	}
	says := func(text string) string {
		return listen(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1024))
			_, _ = io.WriteString(c, text)
		}).Addr().String()
	}
	silent := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }).Addr().String()
	for address, want := range map[string]string{
		closedPort(t):                   "connection refused",
		says(""):                        "EOF",
		says("SSH-2.0-s3cret\r\n"):      "malformed HTTP response",
		says("HTTP/1.1 s3cret\r\n\r\n"): "malformed HTTP",
	} {
		out := outcome(t, timeout, h, at(address))
		assert.Equal(t, prober.VerdictFailure, out.Verdict)
		assert.Contains(t, out.Output, want)
		assert.Contains(t, out.Output, fmt.Sprintf("Get %q", "http://"+address+"/p"))
		assert.NotContains(t, out.Output, "s3cret")
	}
	out := outcome(t, brief, h, at(silent))
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.Contains(t, out.Output, "deadline exceeded")
	out = outcome(t, timeout, h, targetOf(t, silent, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{
		HTTPHeaders: []v1.HTTPHeader{{Name: "not a name", Value: "x"}},
	}}))
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
}

func TestHTTPOverIPv6(t *testing.T) {
	l := listen(t, "tcp", "[::1]:0", func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1024))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nv6")
	})
	out := outcome(t, timeout, newHandler(t, handlers.Options{}), targetOf(t, l.Addr().String(), v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{}}))
	assert.Equal(t, prober.Outcome{Verdict: prober.VerdictSuccess, Output: "v6"}, out)
}
