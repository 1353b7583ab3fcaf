// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/contexttest"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// A cache says when a pod that is gone comes back. Without a cache, the server is asked again.
func TestGonePodIsAskedForWithoutACache(t *testing.T) {
	for name, cached := range map[string]bool{"with a cache": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o statusmanager.Options
				if cached {
					o.Pods = noPods{}
				}
				n := newNode(t, statustest.Options{}, o)
				pod := testPod("a") // is on no server
				n.set(pod, status(v1.PodRunning, running("main")))
				settle()
				asked := func() int {
					return n.server.Total(statusmanager.RequestGet) + n.server.Total(statusmanager.RequestPatch)
				}
				before := asked()
				require.NotZero(t, before)
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.Equal(t, cached, asked() == before)
			})
		})
	}
}

// noPods is an empty cache.
type noPods struct{}

func (noPods) Pod(types.UID) (*v1.Pod, bool)      { return nil, false }
func (noPods) Mirror(types.UID) (*v1.Pod, bool)   { return nil, false }
func (noPods) Static(types.UID) (types.UID, bool) { return "", false }

// emptyAnswers is a server that answers with objects without a pod in them.
type emptyAnswers struct {
	mu   sync.Mutex
	gets int
	errs []error
}

func (e *emptyAnswers) GetPod(context.Context, statusmanager.PodRef) (*v1.Pod, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gets++
	if e.gets%2 == 0 {
		return nil, nil
	}
	return &v1.Pod{}, nil
}

func (e *emptyAnswers) PatchStatus(context.Context, statusmanager.PodRef, []byte) (*v1.Pod, error) {
	return &v1.Pod{}, nil
}

func (e *emptyAnswers) DeletePod(context.Context, statusmanager.PodRef) error { return nil }

// An answer without a pod is an error of the request, and never the end of the pod.
func TestAnswerWithoutAPodIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &emptyAnswers{}
		m := newManager(t, statusmanager.Options{Patcher: server, OnRequest: func(ev statusmanager.RequestEvent) {
			server.mu.Lock()
			defer server.mu.Unlock()
			if ev.Request == statusmanager.RequestGet {
				server.errs = append(server.errs, ev.Err)
			}
		}})
		start(t, m)
		_, err := m.SetPodStatus(testPod("a"), status(v1.PodRunning, running("main")))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		server.mu.Lock()
		defer server.mu.Unlock()
		require.GreaterOrEqual(t, len(server.errs), 2)
		for _, err := range server.errs {
			require.ErrorContains(t, err, "the answer of the API server holds no pod")
		}
	})
}

// Errors name the pod that the caller has asked for.
func TestErrorsNameThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		err := n.WaitSynced(t.Context(), "nobody")
		require.ErrorIs(t, err, statusmanager.ErrUnknownPod)
		require.ErrorContains(t, err, "pod nobody:")
	})
}

// Run's context lives for months: requests leave nothing behind at it.
func TestRequestsLeaveNothingAtTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{Latency: 20 * time.Millisecond})
		m := newManager(t, statusmanager.Options{Patcher: server})
		server.Watch(m.Observed)
		parent, cancel := context.WithCancel(t.Context())
		ctx := contexttest.New(parent)
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		synctest.Wait()
		before := ctx.Waiting()
		for _, uid := range uids("p", 50) {
			pod := server.Create(testPod(uid))
			_, err := m.SetPodStatus(pod, status(v1.PodRunning, running("main")))
			require.NoError(t, err)
		}
		for _, uid := range uids("p", 50) {
			require.NoError(t, m.WaitSynced(t.Context(), uid))
		}
		synctest.Wait()
		assert.Equal(t, before, ctx.Waiting())
		cancel()
		require.NoError(t, <-done)
	})
}

// A request is told with its duration, and pods with failed requests are counted until a success.
func TestFailingPodsAndTheirRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var took []time.Duration
		n := newNode(t, statustest.Options{Latency: 20 * time.Millisecond}, statusmanager.Options{
			OnRequest: func(ev statusmanager.RequestEvent) {
				mu.Lock()
				defer mu.Unlock()
				took = append(took, ev.Took)
			},
		})
		n.set(n.server.Create(testPod("a")), status(v1.PodRunning, running("main")))
		settle()
		assert.Zero(t, n.Stats().Failing)
		b := n.server.Create(testPod("b"))
		inject(t, n.server, statustest.Fault{Pod: b.Name, Times: 1, Err: apierrors.NewTooManyRequests("later", 5)})
		n.set(b, status(v1.PodRunning, running("main")))
		settle()
		assert.Equal(t, 1, n.Stats().Failing)
		time.Sleep(time.Minute)
		assert.Zero(t, n.Stats().Failing)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, took, 3)
		for _, d := range took {
			assert.Equal(t, 20*time.Millisecond, d)
		}
	})
}

// The end of a pod that may be told now does not wait for the budget that other statuses have used up.
func TestEndThatMayBeToldHasABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mayRun atomic.Bool
		mayRun.Store(true)
		n := newNode(t, statustest.Options{}, statusmanager.Options{Safety: statusmanager.SafetyFunc(func(types.UID) bool { return mayRun.Load() })})
		pod := n.server.Create(testPod("a"))
		time.Sleep(49 * time.Second)
		for i := range 100 {
			n.set(pod, status(v1.PodRunning, waiting("main", fmt.Sprint(i))))
			time.Sleep(100 * time.Millisecond)
		}
		n.set(pod, status(v1.PodSucceeded, exited("main", 0)))
		time.Sleep(500 * time.Millisecond)
		require.NotEqual(t, v1.PodSucceeded, n.api("a").Phase)
		mayRun.Store(false)
		time.Sleep(time.Second) // each minute, the seams are asked again
		assert.Equal(t, v1.PodSucceeded, n.api("a").Phase)
	})
}
