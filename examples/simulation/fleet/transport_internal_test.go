// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
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

// trickle is the body of a watch. Each change arrives at its time, and a Read returns a single change.
type trickle struct {
	began time.Time
	at    []time.Duration
	end   context.Context
}

// Read implements io.Reader.
func (r *trickle) Read(p []byte) (int, error) {
	if len(r.at) == 0 {
		<-r.end.Done()
		return 0, r.end.Err()
	}
	select {
	case <-time.After(r.at[0] - time.Since(r.began)):
		r.at = r.at[1:]
		return copy(p, "x"), nil
	case <-r.end.Done():
		return 0, r.end.Err()
	}
}

// Close implements io.Closer.
func (r *trickle) Close() error { return nil }

type onlyBody struct{ body io.ReadCloser }

// RoundTrip answers each request with the body.
func (o onlyBody) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Body: o.body}, nil
}

// TestChangesOfAWatchGather: a change that arrives alone is read at once, and the changes of the next 50 ms are read
// together. The end of the request ends the wait. Bodies of other requests are read as they come.
func TestChangesOfAWatchGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		arrivals := []time.Duration{10 * ms, 12 * ms, 13 * ms, 60 * ms, 61 * ms, 200 * ms}
		for url, want := range map[string][]time.Duration{
			"/pods?watch=true": {10 * ms, 60 * ms, 60 * ms, 60 * ms, 61 * ms, 200 * ms},
			"/pods?limit=500":  arrivals,
		} {
			ctx, stop := context.WithCancel(t.Context())
			began := time.Now()
			l := &limited{onlyBody{&trickle{began: began, at: slices.Clone(arrivals), end: ctx}}, make(chan struct{}, requestsAtOnce)}
			answer, err := l.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, url, nil))
			require.NoError(t, err)
			var got []time.Duration
			for range arrivals {
				n, err := answer.Body.Read(make([]byte, 10))
				require.NoError(t, err)
				require.Equal(t, 1, n)
				got = append(got, time.Since(began))
			}
			assert.Equal(t, want, got, url)
			stop()
			_, err = answer.Body.Read(make([]byte, 10))
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, 200*ms, time.Since(began), url)
		}
	})
}
