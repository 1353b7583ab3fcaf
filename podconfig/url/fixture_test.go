// SPDX-License-Identifier: Apache-2.0

package url_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/podconfig/url"
)

const secret = "hunter2"

// pod returns a manifest.
func pod(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n  - name: main\n    image: %s\n", name, image)
}

// list returns a PodList in JSON; its items are named a=b.
func list(items ...string) string {
	var out []string
	for _, item := range items {
		name, image, _ := strings.Cut(item, "=")
		out = append(out, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"main","image":%q}]}}`, name, image))
	}
	return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(out, ",") + `]}`
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(*testing.T)) { synctest.Test(t, test) }

// pipes is an in-memory network with a single host.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fixture is a server with an answer chosen by the test, and the parts of a source for the server.
type fixture struct {
	*testing.T
	config url.Config

	mu       sync.Mutex
	answer   http.HandlerFunc
	requests []*http.Request
	at       []time.Duration // since start
	problems []string        // "ok" when all problems have ended
	start    time.Time
}

// newFixture must be called in a bubble.
func newFixture(t *testing.T, edit ...func(*url.Config)) *fixture {
	f := &fixture{T: t, start: time.Now()}
	network := newPipes()
	server := &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(network) }()
	transport := &http.Transport{DialContext: network.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, server.Close())
		<-ended
	})
	f.config = url.Config{
		URL:     "http://user:" + secret + "@site.example/pods?token=" + secret,
		Decoder: &manifest.Decoder{NodeName: "n", Strict: true},
		Client:  &http.Client{Transport: transport},
		Problem: f.problem,
	}
	for _, e := range edit {
		e(&f.config)
	}
	return f
}

func (f *fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.Clone(context.Background()))
	f.at = append(f.at, time.Since(f.start))
	answer := f.answer
	f.mu.Unlock()
	answer(w, r)
}

func (f *fixture) problem(err error) {
	text := "ok"
	if err != nil {
		text = err.Error()
		var known *url.Error
		require.ErrorAs(f, err, &known)
		require.NotContains(f, text, secret)
		require.NotContains(f, text, "\n")
		text = strings.TrimPrefix(text, "http://site.example/pods: ")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems = append(f.problems, text)
}

// serve sets the answer from now on.
func (f *fixture) serve(answer http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// body answers 200 with a text.
func body(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// status answers with a status and a text that must never be reported.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secret, code) }
}

// tagged answers 304 or 200 with an ETag and counts the full answers.
func tagged(tag, text string, full *int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		*full++
		_, _ = io.WriteString(w, text)
	}
}

// asked returns the requests since the last call.
func (f *fixture) asked() []*http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.requests
	f.requests = nil
	return r
}

// times returns the times of requests since the last call.
func (f *fixture) times() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.at
	f.at = nil
	return at
}

// told returns the problems since the last call.
func (f *fixture) told() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.problems
	f.problems = nil
	return p
}

func (f *fixture) source() *url.Source {
	s, err := url.New(f.config)
	require.NoError(f, err)
	return s
}

// poll serves an answer and polls once.
func (f *fixture) poll(s *url.Source, answer http.HandlerFunc) url.Result {
	f.serve(answer)
	r, err := s.Poll(f.Context())
	require.NoError(f, err)
	return r
}

// images formats pods as name=image, without the node's suffix.
func images(pods []*v1.Pod) []string {
	out := []string{}
	for _, p := range pods {
		out = append(out, strings.TrimSuffix(p.Name, "-n")+"="+p.Spec.Containers[0].Image)
	}
	return out
}

// sink records snapshots.
type sink struct {
	err error
	mu  sync.Mutex
	got [][]string
}

func (s *sink) Submit(_ context.Context, c podconfig.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Kind() != podconfig.ChangeSnapshot {
		return fmt.Errorf("a %v", c.Kind())
	}
	s.got = append(s.got, images(c.Pods()))
	return s.err
}

func (s *sink) take() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := slices.Clone(s.got)
	s.got = nil
	return got
}

// running is a fixture with a running source.
type running struct {
	*fixture
	*sink
	stop func() error
}

// run starts the source and waits until it is idle. The test must call stop.
func (f *fixture) run() *running {
	r := &running{fixture: f, sink: &sink{}}
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan error, 1)
	source := f.source()
	go func() { done <- source.Run(ctx, r.sink) }()
	r.stop = func() error {
		cancel()
		return <-done
	}
	synctest.Wait()
	return r
}

// next serves an answer and lets polls periods pass.
func (r *running) next(answer http.HandlerFunc, polls int) {
	r.serve(answer)
	for range polls {
		time.Sleep(22*time.Second + url.Timeout) // a period, its jitter, and a poll
		synctest.Wait()
	}
}
