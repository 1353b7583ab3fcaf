// SPDX-License-Identifier: Apache-2.0

package podwatch_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/podwatch"
)

const secret = "hunter2"

// pod returns a pod of node n with a secret in it; its UID equals its name.
func pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)},
		Spec: v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "main", Image: "x:1",
			Env: []v1.EnvVar{{Name: "PASSWORD", Value: secret}}}}},
	}
}

func withImage(p *v1.Pod, image string) *v1.Pod {
	p.Spec.Containers[0].Image = image
	return p
}

func onNode(p *v1.Pod, node string) *v1.Pod {
	p.Spec.NodeName = node
	return p
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(*testing.T)) { synctest.Test(t, test) }

// fixture is a server, and the parts of a source that uses it through a real client.
type fixture struct {
	*testing.T
	*server
	config podwatch.Config
	mu     sync.Mutex
	errs   []*podwatch.Error // nil for the end of all problems
}

// newFixture must be called in a bubble.
func newFixture(t *testing.T, edit ...func(*podwatch.Config)) *fixture {
	f := &fixture{T: t, server: newServer(t)}
	transport := &http.Transport{DialContext: f.server.dial}
	t.Cleanup(transport.CloseIdleConnections)
	core, err := typedcorev1.NewForConfigAndClient(&rest.Config{Host: "http://api.example", QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, &http.Client{Transport: transport})
	require.NoError(t, err)
	f.config = podwatch.Config{Pods: core.Pods(""), NodeName: "n", Problem: f.problem}
	for _, e := range edit {
		e(&f.config)
	}
	return f
}

func (f *fixture) problem(err error) {
	var e *podwatch.Error
	if err != nil && !errors.As(err, &e) {
		f.Errorf("%T", err)
	}
	for err := err; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
			f.Errorf("tells too much: %v", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, e)
}

// told returns the problems since the last call as "verb Reason", or "ok".
func (f *fixture) told() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, e := range f.errs {
		if e == nil {
			out = append(out, "ok")
		} else {
			out = append(out, string(e.Verb)+" "+string(e.Reason))
		}
	}
	f.errs = nil
	return out
}

// sink records changes in short: "snapshot a b", "upsert a=x:1", "remove a".
type sink struct {
	err error
	mu  sync.Mutex
	got []string
}

func (s *sink) Submit(ctx context.Context, c podconfig.Change) error {
	text := strings.ToLower(c.Kind().String())
	for _, p := range c.Pods() {
		text += " " + cmp.Or(p.Name, "?")
		for _, c := range p.Spec.Containers {
			if c.Image != "x:1" {
				text += "=" + c.Image
			}
		}
	}
	for _, uid := range c.UIDs() {
		text += " " + string(uid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.got = append(s.got, text)
	return s.err
}

// take returns the changes since the last call. The pods of a snapshot are sorted, because a
// watch-list has no order.
func (s *sink) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	for i, text := range got {
		words := strings.Fields(text)
		slices.Sort(words[1:])
		got[i] = strings.Join(words, " ")
	}
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
	source, err := podwatch.New(f.config)
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, r.sink) }()
	r.stop = func() error {
		cancel()
		return <-done
	}
	synctest.Wait()
	return r
}

// pass lets time pass.
func (r *running) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// settle waits for a backoff and the following requests, until the server counts as recovered.
func (r *running) settle() { r.pass(70 * time.Second) }

func names(n int, format string) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

func podUID(name string) types.UID { return types.UID(name) }
