// SPDX-License-Identifier: Apache-2.0

package statuspatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statuspatch"
)

var _ interface {
	statusmanager.Patcher
	statusmanager.Getter
} = (*statuspatch.Patcher)(nil)

var web = statusmanager.PodRef{Namespace: "default", Name: "web", UID: "1234"}

// answerer is an API server with configured answers that records all requests.
type answerer struct {
	*httptest.Server
	mu      sync.Mutex
	asked   []string
	answers []func(http.ResponseWriter)
}

func newAnswerer(t *testing.T, answers ...func(http.ResponseWriter)) *answerer {
	a := &answerer{answers: answers}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked = append(a.asked, fmt.Sprintf("%s %s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"), body))
		a.answers[min(len(a.asked), len(a.answers))-1](w)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *answerer) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// patcher uses JSON, so that the tests can read requests.
func (a *answerer) patcher(t *testing.T) *statuspatch.Patcher {
	p, err := statuspatch.New(statuspatch.Options{Config: &rest.Config{
		Host: a.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}})
	require.NoError(t, err)
	return p
}

func object(status int, value any, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value) // the client sees the missing part
	}
}

func pod() *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1234", ResourceVersion: "7"},
		Status:     v1.PodStatus{Phase: v1.PodRunning},
	}
}

func TestRequests(t *testing.T) {
	a := newAnswerer(t, object(http.StatusOK, pod()))
	p := a.patcher(t)
	got, err := p.PatchStatus(t.Context(), web, []byte(`{"metadata":{"uid":"1234"},"status":{"phase":"Running"}}`))
	require.NoError(t, err)
	assert.Equal(t, v1.PodRunning, got.Status.Phase)
	assert.Equal(t, "7", got.ResourceVersion)
	got, err = p.GetPod(t.Context(), web)
	require.NoError(t, err)
	assert.Equal(t, web.UID, got.UID)
	require.NoError(t, p.DeletePod(t.Context(), web))
	requests := a.requests()
	require.Len(t, requests, 3)
	assert.Equal(t, `PATCH /api/v1/namespaces/default/pods/web/status application/strategic-merge-patch+json `+
		`{"metadata":{"uid":"1234"},"status":{"phase":"Running"}}`, requests[0])
	assert.Equal(t, `GET /api/v1/namespaces/default/pods/web  `, requests[1])
	assert.JSONEq(t, `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"1234"}}`,
		requests[2][len("DELETE /api/v1/namespaces/default/pods/web application/json "):])
}

// TestErrorsAreToldApart: an error of the server is returned as an API status, and no request is
// repeated.
func TestErrorsAreToldApart(t *testing.T) {
	failure := func(code int, reason metav1.StatusReason, seconds int32) metav1.Status {
		s := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason}
		if seconds > 0 {
			s.Details = &metav1.StatusDetails{RetryAfterSeconds: seconds}
		}
		return s
	}
	tests := []struct {
		name   string
		answer func(http.ResponseWriter)
		is     func(error) bool
		delay  int
	}{
		{"404", object(404, failure(404, metav1.StatusReasonNotFound, 0)), apierrors.IsNotFound, 0},
		{"409", object(409, failure(409, metav1.StatusReasonConflict, 0)), apierrors.IsConflict, 0},
		{"422", object(422, failure(422, metav1.StatusReasonInvalid, 0)), apierrors.IsInvalid, 0},
		{"429 with Retry-After", object(429, failure(429, metav1.StatusReasonTooManyRequests, 0), "Retry-After", "3"), apierrors.IsTooManyRequests, 3},
		{"429 from a proxy", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "slow down", http.StatusTooManyRequests)
		}, apierrors.IsTooManyRequests, 5},
		{"500", object(500, failure(500, metav1.StatusReasonInternalError, 0)), apierrors.IsInternalError, 0},
		{"503 with Retry-After", object(503, failure(503, metav1.StatusReasonServiceUnavailable, 0), "Retry-After", "2"), apierrors.IsServiceUnavailable, 2},
		{"429 that says so itself", object(429, failure(429, metav1.StatusReasonTooManyRequests, 6), "Retry-After", "3"), apierrors.IsTooManyRequests, 6},
		{"server timeout", object(504, failure(504, metav1.StatusReasonServerTimeout, 4)), apierrors.IsServerTimeout, 4},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			a := newAnswerer(t, tc.answer)
			p := a.patcher(t)
			began := time.Now()
			for i, ask := range []func() error{
				func() error { _, err := p.PatchStatus(t.Context(), web, []byte(`{}`)); return err },
				func() error { _, err := p.GetPod(t.Context(), web); return err },
				func() error { return p.DeletePod(t.Context(), web) },
			} {
				err := ask()
				require.Error(t, err)
				assert.True(t, tc.is(err), "%v", err)
				require.ErrorContains(t, err, "pod default/web(1234)")
				if tc.delay > 0 {
					seconds, ok := apierrors.SuggestsClientDelay(err)
					assert.True(t, ok, "%v", err)
					assert.Equal(t, tc.delay, seconds)
				}
				assert.Len(t, a.requests(), i+1, "asked once")
			}
			assert.Less(t, time.Since(began), 5*time.Second, "a Retry-After is not waited for in the place of others")
		})
	}
}

func TestTransportErrors(t *testing.T) {
	a := newAnswerer(t, func(w http.ResponseWriter) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	_, err := a.patcher(t).PatchStatus(t.Context(), web, []byte(`{}`))
	require.Error(t, err)
	assert.Len(t, a.requests(), 1, "a request that may have been carried out is not repeated")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = a.patcher(t).GetPod(ctx, web)
	require.ErrorIs(t, err, context.Canceled)
}

func TestNewNamesTheBadField(t *testing.T) {
	_, err := statuspatch.New(statuspatch.Options{})
	require.ErrorContains(t, err, "Options.Config")
	_, err = statuspatch.New(statuspatch.Options{Config: &rest.Config{Host: "://"}})
	require.ErrorContains(t, err, "Options.Config")
}

// TestManagerOnHTTP: a manager and a patcher, through an answer that asks to wait.
func TestManagerOnHTTP(t *testing.T) {
	busy := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: 429}
	a := newAnswerer(t, object(200, pod()), object(429, busy, "Retry-After", "1"), object(200, pod()))
	events := make(chan statusmanager.RequestEvent, 10)
	m, err := statusmanager.New(statusmanager.Options{
		Patcher: a.patcher(t), OnRequest: func(e statusmanager.RequestEvent) { events <- e },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	_, err = m.SetPodStatus(pod(), v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"})
	require.NoError(t, err)
	get, refused, patch := <-events, <-events, <-events
	cancel()
	require.NoError(t, <-done)
	assert.Equal(t, statusmanager.RequestGet, get.Request)
	assert.True(t, apierrors.IsTooManyRequests(refused.Err))
	require.NoError(t, patch.Err)
	assert.GreaterOrEqual(t, patch.Started.Sub(refused.Started), time.Second)
	assert.True(t, patch.Refused, "this server keeps nothing")
}
