// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestUpstream118679KillOfFinishedPodReturnsAtOnce takes no virtual time at all.
func TestUpstream118679KillOfFinishedPodReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := runWorkers(t, Options{})
		defer stop()
		began := time.Now()
		require.NoError(t, w.KillPod(t.Context(), testPod("a"), KillOptions{}))
		require.NoError(t, w.KillPod(t.Context(), testPod("a"), KillOptions{}))
		send(t, w, Update{Type: UpdateCreate, Pod: testPod("holder", static("web"))})
		send(t, w, Update{Type: UpdateCreate, Pod: testPod("waiting", static("web"))})
		require.NoError(t, w.KillPod(t.Context(), testPod("waiting", static("web")), KillOptions{}))
		require.Equal(t, began, time.Now())

		// A proven end counts, even without time left to wait.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 50 {
			require.NoError(t, w.KillPod(ctx, testPod("a"), KillOptions{}))
		}
	})
}

// TestUpstream97328IdlePodsHaveNoGoroutine counts goroutines with a thousand idle pods.
func TestUpstream97328IdlePodsHaveNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := runWorkers(t, Options{})
		defer stop()
		before := goruntime.NumGoroutine()
		for i := range 1000 {
			require.NoError(t, w.UpdatePod(Update{Type: UpdateCreate, Pod: testPod(types.UID(fmt.Sprint(i)))}))
		}
		synctest.Wait()
		// The goroutine of a call exists for an instant after its last step, longer if the machine is busy.
		require.InDelta(t, before, goruntime.NumGoroutine(), 100)
	})
}

// TestUpstream104824AllListsEveryPod includes pods that left the configuration and orphans.
func TestUpstream104824AllListsEveryPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{
			terminating: func(ctx context.Context, _ TerminatingRequest) error { return hold(ctx) },
			orphan:      func(ctx context.Context, _ Orphan, _ int64) error { return hold(ctx) },
		}})
		defer stop()
		for _, uid := range []types.UID{"c", "a", "b"} {
			send(t, w, Update{Type: UpdateCreate, Pod: testPod(uid)})
		}
		send(t, w, Update{Type: UpdateKill, Orphan: &Orphan{UID: "o"}})
		w.SyncKnownPods(nil)
		var seen []types.UID
		for uid, known := range w.All() {
			seen = append(seen, uid)
			assert.Equal(t, StateTerminating, known.State)
			_, ok := w.Info(uid) // No lock is held.
			assert.True(t, ok)
		}
		require.Equal(t, []types.UID{"c", "a", "b", "o"}, seen, "in the order they came")
		for range w.All() {
			break
		}
	})
}

// TestUpstream66574StuckTerminatingPodSaysWhy also covers 51835 and 93925.
func TestUpstream66574StuckTerminatingPodSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the runtime does not answer")
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{terminating: func(context.Context, TerminatingRequest) error {
			return broken
		}}})
		defer stop()
		began := time.Now()
		send(t, w, Update{Type: UpdateCreate, Pod: testPod("a")})
		time.Sleep(time.Second)
		send(t, w, Update{Type: UpdateKill, Pod: testPod("a"), Kill: &KillOptions{Evict: true}})
		time.Sleep(25 * time.Second)
		synctest.Wait()
		require.Equal(t, WorkerInfo{
			State: StateTerminating, HasConfig: true, Started: true, Evicted: true,
			SyncedAt: began, StartedAt: began, TerminatingAt: began.Add(time.Second),
			GracePeriodSeconds: 30, Attempt: 3, LastError: broken, NextSync: began.Add(31 * time.Second),
		}, info(t, w, "a"))
	})
}

// TestUpstreamUpdatePodParallel sends many updates from many goroutines: most may be lost, the last of each pod may not.
func TestUpstreamUpdatePodParallel(t *testing.T) {
	const pods, updates = 20, 100
	synctest.Test(t, func(t *testing.T) {
		last := make([]string, pods)
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{sync: func(_ context.Context, r SyncRequest) (Outcome, error) {
			var i int
			_, err := fmt.Sscan(string(r.Pod.UID), &i)
			time.Sleep(time.Duration(i) * time.Millisecond)
			last[i] = r.Pod.ResourceVersion
			return Outcome{}, err
		}}})
		defer stop()
		for i := range pods {
			go func() {
				for n := range updates {
					uid := types.UID(fmt.Sprint(i))
					_ = w.UpdatePod(Update{Type: UpdateUpdate, Pod: testPod(uid, version(fmt.Sprint(n)))})
					time.Sleep(time.Millisecond)
				}
			}()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for i := range pods {
			require.Equal(t, fmt.Sprint(updates-1), last[i], "pod %d", i)
		}
	})
}

// TestUpstreamWaitingPodShowsItsConfig pins the result of SyncKnownPods for a waiting pod.
func TestUpstreamWaitingPodShowsItsConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := runWorkers(t, Options{})
		defer stop()
		a, b := testPod("a", static("web")), testPod("b", static("web"))
		send(t, w, Update{Type: UpdateCreate, Pod: a})
		send(t, w, Update{Type: UpdateCreate, Pod: b})
		waiting := w.SyncKnownPods([]*v1.Pod{a, b, nil})["b"]
		require.True(t, waiting.HasConfig)
		require.True(t, waiting.Exclusive)
		require.False(t, waiting.Started)
		require.Zero(t, waiting.StartedAt)
		require.Empty(t, w.Retain([]*v1.Pod{a, b, nil}), "a nil pod is not missing")
	})
}

// TestARepeatedFailureIsLoggedOnce lets a pod fail every 10 s, at last with another error.
func TestARepeatedFailureIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.DebugLevel)
		var reason atomic.Value
		reason.Store("no luck")
		syncer := &funcSyncer{sync: func(context.Context, SyncRequest) (Outcome, error) {
			return Outcome{}, errors.New(reason.Load().(string))
		}}
		w, stop := runWorkers(t, Options{Syncer: syncer, Logger: zap.New(core)})
		defer stop()
		send(t, w, Update{Type: UpdateCreate, Pod: testPod("a")})
		time.Sleep(time.Minute)
		require.Equal(t, 1, logs.Len())
		reason.Store("no disk")
		time.Sleep(time.Minute)
		require.Equal(t, 2, logs.Len())
		require.Equal(t, "no disk", logs.All()[1].ContextMap()["error"])
	})
}

// TestFailedCallsAreLogged checks the keys, and that interrupted calls are not failures.
func TestFailedCallsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.DebugLevel)
		syncer := &funcSyncer{
			sync: func(ctx context.Context, r SyncRequest) (Outcome, error) {
				if r.Type == UpdateCreate {
					return Outcome{}, errors.New("no luck")
				}
				<-ctx.Done()
				return Outcome{}, ctx.Err()
			},
			orphan: func(context.Context, Orphan, int64) error { return errors.New("no luck") },
		}
		w, stop := runWorkers(t, Options{Syncer: syncer, Logger: zap.New(core)})
		defer stop()
		send(t, w, Update{Type: UpdateCreate, Pod: testPod("a")})
		send(t, w, Update{Type: UpdateSync, Pod: testPod("a")})
		send(t, w, Update{Type: UpdateKill, Pod: testPod("a")})
		send(t, w, Update{Type: UpdateKill, Orphan: &Orphan{UID: "o", Namespace: "ns", Name: "lost"}})
		require.Equal(t, 2, logs.Len())
		require.Equal(t, map[string]any{
			"pod": "ns/a", "podUID": "a", "state": "sync", "attempt": int64(0), "error": "no luck",
		}, logs.All()[0].ContextMap())
		require.Equal(t, "ns/lost", logs.All()[1].ContextMap()["pod"])
	})
}
