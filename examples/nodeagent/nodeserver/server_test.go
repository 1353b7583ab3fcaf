// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/runtime"
)

// open is a Guard that allows every request.
func open(h http.Handler) http.Handler { return h }

func newServer(t *testing.T, groups ...nodeserver.Group) *nodeserver.Server {
	t.Helper()
	s, err := nodeserver.New(nodeserver.Options{Guard: open, Groups: groups})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// ask returns the status and the body of the answer.
func ask(t *testing.T, h http.Handler, method, target string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, nil))
	return w.Code, w.Body.String()
}

func TestNewRefusesWrongOptions(t *testing.T) {
	nothing := http.NotFoundHandler()
	serve := func(paths ...string) (opts nodeserver.Options) {
		opts.Guard = open
		for _, path := range paths {
			opts.Groups = append(opts.Groups, nodeserver.Handle(path, nothing))
		}
		return opts
	}
	for want, opts := range map[string]nodeserver.Options{
		"Options.Guard":          {},
		`"/a" has no handler`:    {Guard: open, Groups: []nodeserver.Group{nodeserver.Handle("/a", nil)}},
		`"/a" is served twice`:   serve("/a", "/b", "/a"),
		`"a": want a clean path`: serve("a"),
		`"/{a}/{a}": want`:       serve("/{a}/{a}"),
		`"/a b": want`:           serve("/a b"),
		`"/a//b": want`:          serve("/a//b"),
	} {
		_, err := nodeserver.New(opts)
		assert.ErrorContains(t, err, want)
	}
}

// The Guard sees every request, including requests for unknown paths and with other methods.
func TestEveryRequestIsGuarded(t *testing.T) {
	s, err := nodeserver.New(nodeserver.Options{
		Groups: []nodeserver.Group{nodeserver.Pods(func() []*v1.Pod { return nil })},
		Guard: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
		},
	})
	require.NoError(t, err)
	for _, target := range []string{"/pods", "/unknown", "//pods", "/"} {
		for _, method := range []string{"GET", "PUT", "CONNECT"} {
			code, _ := ask(t, s, method, target)
			assert.Equal(t, http.StatusForbidden, code, method+" "+target)
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	s := newServer(t, nodeserver.Pods(func() []*v1.Pod { return nil }))
	code, _ := ask(t, s, "GET", "/runningpods/")
	assert.Equal(t, http.StatusNotFound, code, "the group is left out")
	code, _ = ask(t, s, "PUT", "/pods")
	assert.Equal(t, http.StatusMethodNotAllowed, code)
}

// Close ends a request that is being answered and refuses later requests.
func TestCloseEndsRequests(t *testing.T) {
	began, ended := make(chan struct{}), false
	s := newServer(t, nodeserver.Handle("/slow", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		ended = true
	})))
	go s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/slow", nil))
	<-began
	s.Close()
	assert.True(t, ended)
	code, _ := ask(t, s, "GET", "/slow")
	assert.Equal(t, http.StatusServiceUnavailable, code)
}

func TestHealth(t *testing.T) {
	var broken error
	s := newServer(t, nodeserver.Health(nodeserver.Check{Name: "loop", Do: func(context.Context) error { return broken }}))
	tells := func(target string, code int, body string) {
		t.Helper()
		got, text := ask(t, s, "GET", target)
		assert.Equal(t, code, got, target)
		assert.Equal(t, body, text, target)
	}
	tells("/healthz", 200, "ok")
	tells("/healthz?verbose", 200, "[+]ping ok\n[+]loop ok\nhealthz check passed\n")
	tells("/healthz/ping", 200, "ok")
	broken = errors.New("it hangs")
	tells("/healthz", 500, "[+]ping ok\n[-]loop failed: reason withheld\nhealthz check failed\n")
	tells("/healthz?exclude=loop", 200, "ok")
	tells("/healthz/loop", 500, "internal server error: it hangs\n")
	tells("/healthz/ping", 200, "ok")
	tells("/healthz/other", 404, "404 page not found\n")
}

func TestPodLists(t *testing.T) {
	pod := func(name string) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}} }
	for _, pods := range [][]*v1.Pod{nil, {pod("a")}, {pod("a"), pod("b")}} {
		s := newServer(t, nodeserver.Pods(func() []*v1.Pod { return pods }))
		_, text := ask(t, s, "GET", "/pods")
		var list v1.PodList
		require.NoError(t, json.Unmarshal([]byte(text), &list), text)
		assert.Equal(t, metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, list.TypeMeta)
		require.Len(t, list.Items, len(pods))
		for i, p := range pods {
			assert.Equal(t, p.Name, list.Items[i].Name)
		}
	}
}

func TestRunningPods(t *testing.T) {
	var broken error
	s := newServer(t, nodeserver.RunningPods(func(context.Context, runtime.ListOptions) ([]*runtime.PodStatus, error) {
		return []*runtime.PodStatus{
			{UID: "1", Namespace: "ns", Name: "a", Containers: []runtime.ContainerStatus{
				{Name: "main", Image: "web:1", State: runtime.StateRunning}, {Name: "old", State: runtime.StateExited}}},
			{UID: "2", Namespace: "ns", Name: "b"},
		}, broken
	}))
	_, text := ask(t, s, "GET", "/runningpods/")
	var list v1.PodList
	require.NoError(t, json.NewDecoder(strings.NewReader(text)).Decode(&list))
	require.Len(t, list.Items, 1)
	assert.Equal(t, metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}, list.Items[0].ObjectMeta)
	assert.Equal(t, []v1.Container{{Name: "main", Image: "web:1"}}, list.Items[0].Spec.Containers)
	broken = io.ErrUnexpectedEOF
	code, _ := ask(t, s, "GET", "/runningpods/")
	assert.Equal(t, http.StatusInternalServerError, code)
}
