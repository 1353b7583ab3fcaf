// SPDX-License-Identifier: Apache-2.0

package handlers_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/handlers"
)

func proto(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }

// TestHTTPS: any certificate is accepted, and HTTP/2 is used with servers that offer HTTP/2.
func TestHTTPS(t *testing.T) {
	h := newHandler(t, handlers.Options{})
	for _, want := range []string{"HTTP/1.1", "HTTP/2.0"} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(proto))
		s.EnableHTTP2 = want == "HTTP/2.0"
		s.StartTLS()
		t.Cleanup(s.Close)
		assert.Equal(t, prober.Outcome{Verdict: prober.VerdictSuccess, Output: want}, outcome(t, timeout, h, get(t, s, "/")))
	}
}

func TestHTTPSErrors(t *testing.T) {
	h := newHandler(t, handlers.Options{})
	plain := serve(t, proto)
	toPlain := get(t, plain, "/", func(a *v1.HTTPGetAction) { a.Scheme = v1.URISchemeHTTPS })
	out := outcome(t, timeout, h, toPlain)
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.Contains(t, out.Output, "server gave HTTP response to HTTPS client")

	secure := httptest.NewUnstartedServer(http.HandlerFunc(proto))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	out = outcome(t, timeout, h, get(t, secure, "/", func(a *v1.HTTPGetAction) { a.Scheme = v1.URISchemeHTTP }))
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.Contains(t, out.Output, "statuscode: 400")

	silent := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	out = outcome(t, brief, h, targetOf(t, silent.Addr().String(), v1.ProbeHandler{
		HTTPGet: &v1.HTTPGetAction{Scheme: v1.URISchemeHTTPS},
	}))
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.Contains(t, out.Output, "deadline exceeded")
}

// h2cServer speaks HTTP/2 in clear text, and nothing else.
func h2cServer(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(f)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// TestH2C tests "protocol: HTTP2": prior knowledge, no upgrade.
func TestH2C(t *testing.T) {
	h := newHandler(t, handlers.Options{})
	var seen http.Header
	s := h2cServer(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusTeapot)
		}
		proto(w, r)
	})
	began := time.Now()
	assert.Equal(t, prober.Outcome{Verdict: prober.VerdictSuccess, Output: "HTTP/2.0"},
		outcome(t, timeout, h, get(t, s, "/", h2c, header("X-A", "1"), header("Host", "example.org"))))
	assert.Equal(t, http.Header{"Accept": {"*/*"}, "User-Agent": {handlers.UserAgent}, "X-A": {"1"}}, seen)
	assert.Equal(t, "HTTP probe failed with statuscode: 418", outcome(t, timeout, h, get(t, s, "/bad", h2c)).Output)
	assert.Less(t, time.Since(began), timeout)

	http1 := serve(t, proto)
	out := outcome(t, timeout, h, get(t, http1, "/", h2c))
	assert.Equal(t, prober.VerdictFailure, out.Verdict, "the server speaks HTTP/1.1 only")
	out = outcome(t, timeout, h, get(t, http1, "/", func(a *v1.HTTPGetAction) { a.Protocol = new(v1.HTTPProtocolHTTP1) }))
	assert.Equal(t, "HTTP/1.1", out.Output)
}
