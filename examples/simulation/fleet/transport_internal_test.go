// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

type slowServer struct{ now, most, all atomic.Int32 }

// RoundTrip takes a second.
func (s *slowServer) RoundTrip(*http.Request) (*http.Response, error) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	time.Sleep(time.Second)
	s.all.Add(1)
	return &http.Response{}, nil
}

// TestRequestsWaitForASlot: at most requestsAtOnce requests are in progress, and a request whose context ends does
// not wait any longer.
func TestRequestsWaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &slowServer{}
		l := &limited{server, make(chan struct{}, requestsAtOnce)}
		began := time.Now()
		var wg sync.WaitGroup
		for range 3 * requestsAtOnce {
			wg.Go(func() {
				_, err := l.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
				assert.NoError(t, err)
			})
		}
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := l.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		wg.Wait()
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.EqualValues(t, requestsAtOnce, server.most.Load())
		assert.EqualValues(t, 3*requestsAtOnce, server.all.Load())
	})
}

// TestClientsUseHTTP1: the server sees HTTP/1.1, and the connection of a request serves the next.
func TestClientsUseHTTP1(t *testing.T) {
	var addresses sync.Map
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.Equal(t, 1, r.ProtoMajor)
		addresses.Store(r.RemoteAddr, true)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	spare(config)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	for range 5 {
		answer, err := client.Get(server.URL)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
	}
	used := 0
	addresses.Range(func(any, any) bool { used++; return true })
	assert.Equal(t, 1, used)
}
