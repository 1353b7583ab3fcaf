// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
)

// Methods and paths of requests have a bounded number of values. Refused requests are reported, too.
func TestRequestsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began, ended []nodeserver.Request
		var took time.Duration
		slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })
		s, err := nodeserver.New(nodeserver.Options{
			Guard: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					require.Len(t, began, len(ended)+1)
					if r.URL.Path != "/refused" {
						next.ServeHTTP(w, r)
					}
				})
			},
			Groups: []nodeserver.Group{
				nodeserver.Handle("/metrics", slow), nodeserver.Handle("/metrics/resource", slow), nodeserver.Handle("/logs/", slow), nodeserver.Handle("/exec/", slow),
			},
			Observer: nodeserver.Observer{
				Began: func(r nodeserver.Request) { began = append(began, r) },
				Ended: func(r nodeserver.Request, d time.Duration) { ended, took = append(ended, r), d },
			},
		})
		require.NoError(t, err)
		defer s.Close()
		for _, test := range []struct {
			method, path string
			header       http.Header
			want         nodeserver.Request
		}{
			{"GET", "/metrics", nil, nodeserver.Request{Method: "GET", Path: "metrics"}},
			{"GET", "/metrics/resource", nil, nodeserver.Request{Method: "GET", Path: "metrics/resource"}},
			{"GET", "/metrics/x", nil, nodeserver.Request{Method: "GET", Path: "other"}},
			{"HEAD", "/logs/a/b", nil, nodeserver.Request{Method: "HEAD", Path: "logs"}},
			{"BREW", "/coffee", nil, nodeserver.Request{Method: "other", Path: "other"}},
			{"POST", "/exec/a/b/c", http.Header{"Upgrade": {"SPDY/3.1"}}, nodeserver.Request{Method: "POST", Path: "exec", LongRunning: true}},
			{"GET", "/exec/a/b/c", http.Header{"Upgrade": {"WebSocket"}}, nodeserver.Request{Method: "GET", Path: "exec", LongRunning: true, WebSocket: true}},
			{"GET", "/refused", nil, nodeserver.Request{Method: "GET", Path: "other"}},
			{"GET", "/", nil, nodeserver.Request{Method: "GET", Path: "other"}},
		} {
			r := httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil)
			r.Header = test.header
			s.ServeHTTP(httptest.NewRecorder(), r)
			assert.Equal(t, test.want, began[len(began)-1], test.path)
			if test.want.Path != "other" {
				assert.Equal(t, time.Second, took)
			}
		}
		assert.Equal(t, began, ended)
	})
}

func TestSLIs(t *testing.T) {
	result := error(nil)
	s := newServer(t, nodeserver.SLIs(nodeserver.Check{Name: "loop", Do: func(context.Context) error { return result }}))
	_, text := ask(t, s, "GET", "/metrics/slis")
	assert.NotContains(t, text, `status="error"`)
	result = errors.New("stuck")
	_, text = ask(t, s, "GET", "/metrics/slis")
	for _, want := range []string{
		"# TYPE kubernetes_healthcheck gauge\n", `kubernetes_healthcheck{name="ping",type="healthz"} 1` + "\n", `kubernetes_healthcheck{name="loop",type="healthz"} 0` + "\n",
		"# TYPE kubernetes_healthchecks_total counter\n", `kubernetes_healthchecks_total{name="ping",type="healthz",status="success"} 2` + "\n",
		`kubernetes_healthchecks_total{name="loop",type="healthz",status="success"} 1` + "\n", `kubernetes_healthchecks_total{name="loop",type="healthz",status="error"} 1` + "\n",
	} {
		assert.Contains(t, text, want)
	}
}
