// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/runtime/services"
)

// hostileServer is a server whose lists and watches are treated with faults while hostile is true.
type hostileServer struct {
	server
	hostile   atomic.Bool
	requests  atomic.Int64
	listFault error
	onWatch   func() (watch.Interface, error)
}

func (s *hostileServer) List(ctx context.Context, o metav1.ListOptions) (*v1.ServiceList, error) {
	s.requests.Add(1)
	if s.hostile.Load() && s.listFault != nil {
		return nil, s.listFault
	}
	return s.server.List(ctx, o)
}

func (s *hostileServer) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.requests.Add(1)
	if s.hostile.Load() {
		return s.onWatch()
	}
	return s.server.Watch(ctx, o)
}

// TestHostileServers: whatever the server answers for ever, Services make at most 60 requests in the first five minutes and
// one in ten seconds in the end, and know what there is within a minute of the server's recovery.
func TestHostileServers(t *testing.T) {
	type fault struct {
		list  error
		watch func() (watch.Interface, error)
	}
	closed := func(events ...watch.Event) func() (watch.Interface, error) {
		return func() (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(len(events), false)
			for _, e := range events {
				w.Action(e.Type, e.Object)
			}
			w.Stop()
			return w, nil
		}
	}
	refusing := func(err error) func() (watch.Interface, error) {
		return func() (watch.Interface, error) { return nil, err }
	}
	expired := &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}
	faults := map[string]fault{
		"closes watches at once": {nil, closed()},
		"ends watches with 410":  {nil, closed(watch.Event{Type: watch.Error, Object: expired})},
		"410 to watches":         {nil, refusing(&apierrors.StatusError{ErrStatus: *expired})},
		"a plain error":          {errors.New("no"), refusing(errors.New("no"))},
	}
	for _, code := range casetest.Codes() {
		for _, retryAfter := range []int{0, 1_000_000} {
			err := apierrors.NewGenericServerResponse(code, "list", v1.Resource("services"), "", "", retryAfter, true)
			faults[fmt.Sprintf("%d, retry after %d s", code, retryAfter)] = fault{err, refusing(err)}
			faults[fmt.Sprintf("%d to watches, retry after %d s", code, retryAfter)] = fault{nil, refusing(err)}
		}
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &hostileServer{listFault: fault.list, onWatch: fault.watch}
				s.hostile.Store(true)
				s.items = []v1.Service{*service("ns/a 10.0.0.1")}
				known, err := services.New(services.Options{Client: s})
				require.NoError(t, err)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- known.Run(ctx) }()
				time.Sleep(5 * time.Minute)
				first := s.requests.Swap(0)
				assert.LessOrEqual(t, first, int64(60))
				time.Sleep(30 * time.Minute)
				assert.LessOrEqual(t, s.requests.Load(), int64(180))
				s.hostile.Store(false)
				s.mu.Lock()
				s.items = append(s.items, *service("ns/b 10.0.0.2"))
				s.mu.Unlock()
				time.Sleep(time.Minute)
				pod := &v1.Pod{}
				pod.Namespace = "ns"
				all, err := known.For(t.Context(), pod)
				require.NoError(t, err)
				assert.NotEmpty(t, all)
				if fault.list != nil { // the watch of this server does not say what was before
					assert.Len(t, all, 2)
				}
				stop()
				require.NoError(t, <-ended)
			})
		})
	}
}

// TestRandomSpreadsRetries: the same random numbers give the same times.
func TestRandomSpreadsRetries(t *testing.T) {
	requests := func(random float64) (n int64) {
		synctest.Test(t, func(t *testing.T) {
			s := &hostileServer{listFault: errors.New("no")}
			s.hostile.Store(true)
			known, err := services.New(services.Options{Client: s, Random: func() float64 { return random }})
			require.NoError(t, err)
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			require.NoError(t, known.Run(ctx))
			n = s.requests.Load()
		})
		return n
	}
	first := requests(0)
	assert.Equal(t, first, requests(0))
	assert.InDelta(t, first, 2*requests(0.999), 20, "twice the pauses, half the requests")
}
