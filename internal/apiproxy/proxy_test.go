// SPDX-License-Identifier: Apache-2.0

package apiproxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is a server, its proxy and a client of the proxy.
type world struct {
	proxy  *Proxy
	client *http.Client
	server *httptest.Server
	asked  atomic.Int32 // requests that the server saw
}

// eachProtocol runs a test over HTTP/1.1 and over HTTP/2.
func eachProtocol(t *testing.T, test func(*testing.T, *world)) {
	t.Run("HTTP1", func(t *testing.T) { test(t, newWorld(t, 1)) })
	t.Run("HTTP2", func(t *testing.T) { test(t, newWorld(t, 2)) })
}

func newWorld(t *testing.T, protocol int) *world {
	t.Helper()
	w := new(world)
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ProtoMajor != protocol {
			http.Error(rw, fmt.Sprint(r.Proto, err), http.StatusInternalServerError)
			return
		}
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprintf(rw, "%s %s %s %s", r.Method, r.RequestURI, r.Header.Get("Authorization"), body)
			return
		}
		fmt.Fprintln(rw, "event")
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}))
	opts := Options{}
	client := &http.Transport{ForceAttemptHTTP2: protocol == 2}
	if protocol == 2 {
		w.server.EnableHTTP2 = true
		w.server.StartTLS()
		opts.Authorities = x509.NewCertPool()
		opts.Authorities.AddCert(w.server.Certificate())
		opts.Certificate = &w.server.TLS.Certificates[0]
		client.TLSClientConfig = &tls.Config{RootCAs: opts.Authorities}
	} else {
		w.server.Start()
	}
	opts.Target = w.server.URL
	var err error
	w.proxy, err = New(opts)
	require.NoError(t, err)
	w.client = &http.Client{Transport: client}
	t.Cleanup(func() {
		assert.NoError(t, w.proxy.Close())
		client.CloseIdleConnections()
		w.server.Close()
	})
	return w
}

// inject puts a rule in force until remove is called.
func (w *world) inject(t *testing.T, rule Rule) (remove func()) {
	t.Helper()
	remove, err := w.proxy.Inject(rule)
	require.NoError(t, err)
	return remove
}

// do sends a request through the proxy and returns the answer.
func (w *world) do(ctx context.Context, method, path, body string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.proxy.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Authorization", "Bearer x")
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

const (
	podPath    = "/api/v1/namespaces/a/pods/p"
	statusPath = podPath + "/status"
)

func TestForward(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world) {
		resp, text, err := w.do(t.Context(), "PATCH", statusPath+"?a=b;c%20d", "{}")
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, "PATCH "+statusPath+"?a=b;c%20d Bearer x {}", text)

		require.NoError(t, w.proxy.Wait(t.Context(), 1, func(c Call) bool { return !c.Done.IsZero() }))
		calls := w.proxy.Calls(nil)
		require.Len(t, calls, 1)
		c := calls[0]
		assert.Equal(t, "patch", c.Verb)
		assert.Equal(t, "{}", string(c.Body))
		assert.Equal(t, 200, c.Code)
		assert.False(t, c.Forwarded.Before(c.At))
		assert.False(t, c.Done.Before(c.Forwarded))
		w.proxy.Reset()
		assert.Empty(t, w.proxy.Calls(nil))
	})
}

func TestAnswer(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world) {
		patches := func(r Request) bool { return r.Verb == "patch" }
		w.inject(t, Rule{Match: patches, Times: 1, Then: Answer, Code: 429, RetryAfter: 2 * time.Second})
		remove := w.inject(t, Rule{Match: patches, Then: Answer, Code: 409})

		resp, text, err := w.do(t.Context(), "PATCH", statusPath, "{}")
		require.NoError(t, err)
		assert.Equal(t, 429, resp.StatusCode)
		assert.Equal(t, "2", resp.Header.Get("Retry-After"))
		var status metav1.Status
		require.NoError(t, json.Unmarshal([]byte(text), &status))
		assert.Equal(t, metav1.StatusReasonTooManyRequests, status.Reason)
		assert.EqualValues(t, 2, status.Details.RetryAfterSeconds)

		resp, _, err = w.do(t.Context(), "PATCH", statusPath, "{}")
		require.NoError(t, err)
		assert.Equal(t, 409, resp.StatusCode)
		assert.Empty(t, resp.Header.Get("Retry-After"))
		resp, _, err = w.do(t.Context(), "GET", podPath, "")
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.EqualValues(t, 1, w.asked.Load(), "what is answered by a rule is not forwarded")

		remove()
		remove()
		resp, _, err = w.do(t.Context(), "PATCH", statusPath, "{}")
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		var codes []int
		for _, c := range w.proxy.Calls(nil) {
			codes = append(codes, c.Code)
		}
		assert.Equal(t, []int{429, 409, 200, 200}, codes)
	})
}

func TestDelay(t *testing.T) {
	const delay = 20 * time.Millisecond
	eachProtocol(t, func(t *testing.T, w *world) {
		w.inject(t, Rule{Delay: delay})
		w.inject(t, Rule{Delay: delay, Then: Answer, Code: 500})
		start := time.Now()
		resp, _, err := w.do(t.Context(), "GET", podPath, "")
		require.NoError(t, err)
		assert.Equal(t, 500, resp.StatusCode)
		assert.GreaterOrEqual(t, time.Since(start), 2*delay)
	})
}

// TestDelayEnds checks both early ends of a delay.
func TestDelayEnds(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world) {
		remove := w.inject(t, Rule{Delay: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		gone, served := make(chan error, 1), make(chan error, 1)
		go func() { _, _, err := w.do(ctx, "GET", podPath, ""); gone <- err }()
		require.NoError(t, w.proxy.Wait(t.Context(), 1, nil))
		go func() { _, _, err := w.do(t.Context(), "PATCH", podPath, ""); served <- err }()
		require.NoError(t, w.proxy.Wait(t.Context(), 2, nil))

		cancel()
		assert.ErrorIs(t, <-gone, context.Canceled)
		over := func(c Call) bool { return !c.Done.IsZero() }
		require.NoError(t, w.proxy.Wait(t.Context(), 1, over))
		assert.Zero(t, w.asked.Load(), "nobody is there any more to ask for")
		remove()
		assert.NoError(t, <-served)
		assert.EqualValues(t, 1, w.asked.Load())
	})
}

func TestHang(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world) {
		remove := w.inject(t, Rule{Then: Hang})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = w.proxy.Wait(ctx, 1, nil) // it has come
			cancel()
		}()
		_, _, err := w.do(ctx, "GET", podPath, "")
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, w.proxy.Wait(t.Context(), 1, func(c Call) bool { return !c.Done.IsZero() && c.Code == 0 }))

		hung := make(chan error, 1)
		go func() { _, _, err := w.do(t.Context(), "PATCH", podPath, "{}"); hung <- err }()
		require.NoError(t, w.proxy.Wait(t.Context(), 2, nil))
		remove()
		assert.Error(t, <-hung, "it is cut")
		assert.Zero(t, w.asked.Load())
	})
}

func TestCutAndLose(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world) {
		w.inject(t, Rule{Times: 1, Then: Cut})
		_, _, err := w.do(t.Context(), "PATCH", podPath, "{}")
		require.Error(t, err)
		assert.Zero(t, w.asked.Load())

		w.inject(t, Rule{Times: 1, Then: Lose})
		_, _, err = w.do(t.Context(), "PATCH", podPath, "{}")
		require.Error(t, err)
		assert.EqualValues(t, 1, w.asked.Load())

		_, _, err = w.do(t.Context(), "PATCH", podPath, "{}")
		require.NoError(t, err)
		calls := w.proxy.Calls(nil)
		require.Len(t, calls, 3)
		assert.True(t, calls[0].Forwarded.IsZero() && calls[0].Code == 0)
		assert.True(t, !calls[1].Forwarded.IsZero() && calls[1].Code == 0)
		assert.Equal(t, 200, calls[2].Code)
	})
}

// TestWatch checks that events are not delayed, and that a cut ends the stream.
func TestWatch(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world) {
		resp, err := w.client.Get(w.proxy.URL + "/api/v1/pods?watch=1")
		require.NoError(t, err)
		defer resp.Body.Close()
		events := bufio.NewReader(resp.Body)
		line, err := events.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "event\n", line)
		w.proxy.CutConnections()
		_, err = events.ReadString('\n')
		assert.Error(t, err)
		assert.NotErrorIs(t, err, io.EOF, "it is no orderly end")
		require.NoError(t, w.proxy.Wait(t.Context(), 1, func(c Call) bool { return c.Verb == "watch" && !c.Done.IsZero() }))
		_, _, err = w.do(t.Context(), "GET", podPath, "")
		assert.NoError(t, err)
	})
}

// TestDeadServer checks that the client sees a dead server as without the proxy.
func TestDeadServer(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world) {
		w.server.CloseClientConnections()
		require.NoError(t, w.server.Listener.Close())
		_, _, err := w.do(t.Context(), "PATCH", podPath, "{}")
		assert.Error(t, err)
	})
}

// TestUpgrade checks that an upgraded connection works, and ends with the proxy.
func TestUpgrade(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(c, rw)
	}))
	defer server.Close()
	p, err := New(Options{Target: server.URL})
	require.NoError(t, err)
	c, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
	require.NoError(t, err)
	defer c.Close()
	fmt.Fprint(c, "GET /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, 101, resp.StatusCode)
	fmt.Fprintln(c, "hello")
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "hello\n", line)
	calls := p.Calls(nil)
	require.Len(t, calls, 1)
	assert.Equal(t, 101, calls[0].Code)

	require.NoError(t, p.Close())
	_, err = in.ReadString('\n')
	assert.Error(t, err)
	assert.False(t, p.Calls(nil)[0].Done.IsZero(), "Close waits")
}

// TestClose checks that Close ends hanging requests.
func TestClose(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	p, err := New(Options{Target: server.URL})
	require.NoError(t, err)
	_, err = p.Inject(Rule{Times: 1, Then: Hang})
	require.NoError(t, err)
	hung := make(chan error, 2)
	go func() { _, err := http.Get(p.URL); hung <- err }()
	require.NoError(t, p.Wait(t.Context(), 1, nil))
	// Another is not hanging, but slow to notice.
	entered := make(chan struct{})
	_, err = p.Inject(Rule{Match: func(Request) bool {
		close(entered)
		<-p.served
		<-time.After(10 * time.Millisecond)
		return true
	}, Then: Cut})
	require.NoError(t, err)
	go func() { _, err := http.Get(p.URL); hung <- err }()
	<-entered
	require.NoError(t, p.Close())
	assert.Error(t, <-hung)
	assert.Error(t, <-hung)
	calls := p.Calls(func(c Call) bool { return !c.Done.IsZero() })
	assert.Len(t, calls, 2, "Close waits")
	_, err = http.Get(p.URL)
	assert.Error(t, err)
}

func TestWaitGivesUp(t *testing.T) {
	w := newWorld(t, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	err := w.proxy.Wait(ctx, 1, nil)
	require.ErrorIs(t, err, cause)
	assert.ErrorContains(t, err, "wait for 1 calls, of which there are 0")
}

func TestBadOptions(t *testing.T) {
	for _, target := range []string{"", "x", "ftp://x", "http://", ":"} {
		_, err := New(Options{Target: target})
		assert.ErrorContains(t, err, "Target", "%q", target)
	}
	_, err := newWorld(t, 1).proxy.Inject(Rule{Times: -1})
	assert.ErrorContains(t, err, "Times")
}
