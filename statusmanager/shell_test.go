// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
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

// The hook gets every field of each kind of request.
func TestHookIsToldTheWholeRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const latency = 20 * time.Millisecond
		var events requestLog
		server := newServer(t, statustest.Options{Latency: latency})
		failed := apierrors.NewInternalError(errors.New("no quorum"))
		inject(t, server, statustest.Fault{Times: 1, Err: failed})
		m := newManager(t, statusmanager.Options{Patcher: server, OnRequest: events.add, Jitter: func(d time.Duration) time.Duration { return d }})
		start(t, m)
		pod := server.Create(testPod("a"))
		ref := statusmanager.PodRef{Namespace: "default", Name: "a", UID: "a"}
		began := time.Now()
		_, err := m.SetPodStatus(pod, status(v1.PodRunning, running("main")))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		pod, err = server.Delete("a")
		require.NoError(t, err)
		_, err = m.TerminatePod(pod)
		require.NoError(t, err)
		settle()
		journal := server.Journal()
		require.Len(t, journal, 5)
		want := func(request statusmanager.Request, class statusmanager.Class, failures int, at time.Duration) statusmanager.RequestEvent {
			return statusmanager.RequestEvent{Pod: ref, UID: "a", Request: request, Class: class, Failures: failures, Started: began.Add(at), Took: latency}
		}
		const retried = latency + 500*time.Millisecond
		all := []statusmanager.RequestEvent{
			want(statusmanager.RequestGet, statusmanager.ClassReady, 0, 0),
			want(statusmanager.RequestGet, statusmanager.ClassReady, 1, retried),
			want(statusmanager.RequestPatch, statusmanager.ClassReady, 1, retried+latency),
			want(statusmanager.RequestPatch, statusmanager.ClassTerminal, 0, time.Minute),
			want(statusmanager.RequestDelete, statusmanager.ClassTerminal, 0, time.Minute+latency),
		}
		all[0].Err = failed
		all[2].Latency, all[2].Bytes = retried+2*latency, len(journal[2].Patch)
		all[3].Latency, all[3].Bytes = latency, len(journal[3].Patch)
		assert.Equal(t, all, events.all())
	})
}

// Stats tells how many pods wait in each class, and for how long.
func TestStatsOfEachClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: 400 * time.Millisecond}, statusmanager.Options{Workers: 1})
		time.Sleep(time.Second)
		for i, s := range []v1.PodStatus{
			status(v1.PodRunning, ready("main")), // in flight
			status(v1.PodFailed, exited("main", 1)),
			status(v1.PodRunning, ready("main")), status(v1.PodRunning, ready("main")),
			status(v1.PodPending, waiting("main", "x")), status(v1.PodPending, waiting("main", "y")), status(v1.PodPending, waiting("main", "z")),
		} {
			n.set(n.server.Create(testPod(types.UID(fmt.Sprint(i)))), s)
			synctest.Wait()
		}
		time.Sleep(300 * time.Millisecond)
		want := statusmanager.Stats{Pods: 7, Unsynced: 7, Queued: [...]int{1, 2, 3}, InFlight: 1, Oldest: 300 * time.Millisecond}
		assert.Equal(t, want, n.Stats())
		time.Sleep(time.Minute)
		assert.Equal(t, statusmanager.Stats{Pods: 7}, n.Stats())
	})
}

// Changes that another writer of a readiness gate causes use up the budget of the pod.
func TestFlappingGateHasABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a", gate("example.com/lb")))
		n.set(pod, status(v1.PodRunning, ready("main")))
		time.Sleep(time.Hour)
		before := len(n.server.Journal())
		for i := range 100 {
			_, err := n.server.Change("a", func(p *v1.Pod) {
				p.Status.Conditions = slices.DeleteFunc(slices.Clone(p.Status.Conditions), func(c v1.PodCondition) bool { return c.Type == "example.com/lb" })
				if i%2 == 0 {
					p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: "example.com/lb", Status: v1.ConditionTrue})
				}
			})
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, len(n.server.Journal())-before, 6)
		assert.Greater(t, len(n.server.Journal())-before, 3)
	})
}

// The UID of each mirror pod means its static pod.
func TestEachMirrorMeansItsPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		mirrors := map[types.UID]*v1.Pod{}
		for _, uid := range uids("static", 20) {
			pod := testPod(uid, static)
			mirrors[uid] = n.server.CreateMirror(pod)
			n.set(pod, status(v1.PodRunning, running("main")))
		}
		settle()
		for _, mirror := range mirrors {
			changed, err := n.SetContainerReadiness(mirror.UID, "fake://main", true)
			require.NoError(t, err)
			assert.True(t, changed)
			require.NoError(t, n.WaitSynced(t.Context(), mirror.UID))
			_, known := n.GetPodStatus(mirror.UID)
			assert.True(t, known)
		}
		n.RemoveOrphanedStatuses(func(types.UID) bool { return false })
		assert.Zero(t, n.Stats().Pods)
	})
}

// A pod that the server does not have is no failing pod.
func TestGonePodIsNotFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		inject(t, n.server, statustest.Fault{Times: 1, Err: errors.New("no quorum")})
		n.set(pod, status(v1.PodRunning, running("main")))
		synctest.Wait()
		assert.Equal(t, 1, n.Stats().Failing)
		n.server.Remove("a")
		settle()
		assert.Equal(t, statusmanager.Stats{Pods: 1}, n.Stats())
	})
}

// A probe result that is no news leaves the conditions that the caller has set.
func TestUnchangedReadinessKeepsConditions(t *testing.T) {
	m := newManager(t, statusmanager.Options{})
	s := status(v1.PodRunning, ready("main"))
	s.Conditions = []v1.PodCondition{
		{Type: v1.ContainersReady, Status: v1.ConditionFalse, Reason: "Paused"}, {Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "Paused"},
	}
	_, err := m.SetPodStatus(testPod("a"), s)
	require.NoError(t, err)
	changed, err := m.SetContainerReadiness("a", "fake://main", true)
	require.NoError(t, err)
	assert.False(t, changed)
	got, _ := m.GetPodStatus("a")
	assert.Equal(t, "Paused", condition(got, v1.PodReady).Reason)
}

// Without a Drain, no request begins after the context of Run has ended, and the cancelled request is
// no failure.
func TestNothingBeginsAfterTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.DebugLevel)
		var events requestLog
		n := newNode(t, statustest.Options{Latency: time.Second}, statusmanager.Options{Workers: 1, Logger: zap.New(core), OnRequest: events.add})
		for _, uid := range uids("p", 5) {
			n.set(n.server.Create(testPod(uid)), status(v1.PodRunning, running("main")))
		}
		synctest.Wait()
		began := time.Now()
		n.stop()
		assert.Zero(t, time.Since(began))
		require.Len(t, n.server.Journal(), 1)
		require.ErrorIs(t, n.server.Journal()[0].Err, context.Canceled)
		assert.Empty(t, logs.All())
		assert.Empty(t, events.all())
		before := n.Stats()
		assert.Zero(t, before.Failing)
		require.ErrorIs(t, n.WaitSynced(t.Context(), "p-004"), statusmanager.ErrStopped)
		_, err := n.TerminatePod(testPod("p-004"))
		require.ErrorIs(t, err, statusmanager.ErrStopped)
		_, err = n.SetContainerReadiness("p-004", "fake://main", true)
		require.ErrorIs(t, err, statusmanager.ErrStopped)
		assert.Equal(t, before, n.Stats())
	})
}

// A wait for a pod that is forgotten ends, also if the pod comes back before its last request has returned.
func TestWaitForAForgottenPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: time.Second}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodPending, waiting("main", "ContainerCreating")))
		n.set(pod, status(v1.PodRunning, running("main")))
		began, done := time.Now(), make(chan error, 1)
		go func() { done <- n.WaitSynced(t.Context(), "a") }()
		synctest.Wait()
		n.RemoveOrphanedStatuses(func(types.UID) bool { return false })
		n.set(pod, status(v1.PodRunning, ready("main")))
		time.Sleep(time.Minute)
		select {
		case err := <-done:
			require.ErrorIs(t, err, statusmanager.ErrUnknownPod)
		default:
			t.Fatal("the wait goes on after ", time.Since(began))
		}
	})
}

// DefaultWorkers pods are written at a time.
func TestDefaultWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: 100 * time.Millisecond}, statusmanager.Options{})
		for _, uid := range uids("p", 50) {
			n.set(n.server.Create(testPod(uid)), status(v1.PodRunning, running("main")))
		}
		synctest.Wait()
		assert.Equal(t, statusmanager.DefaultWorkers, n.Stats().InFlight)
		assert.Equal(t, 10, statusmanager.DefaultWorkers)
	})
}

// wrongCache is a cache that calls each pod the mirror pod of another static pod.
type wrongCache struct{ noPods }

func (wrongCache) Static(types.UID) (types.UID, bool) { return "another", true }

// The UID of a pod with a status means this pod, whatever the cache says.
func TestKnownPodIsNoMirrorPod(t *testing.T) {
	m := newManager(t, statusmanager.Options{Pods: wrongCache{}})
	_, err := m.SetPodStatus(testPod("a"), status(v1.PodRunning, running("main")))
	require.NoError(t, err)
	_, known := m.GetPodStatus("a")
	assert.True(t, known)
	changed, err := m.SetContainerReadiness("a", "fake://main", true)
	require.NoError(t, err)
	assert.True(t, changed)
}

// A pod that waits for its next try is forgotten with its wait.
func TestForgottenPodDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		inject(t, n.server, statustest.Fault{Err: errors.New("broken")})
		n.set(n.server.Create(testPod("a")), status(v1.PodRunning, running("main")))
		synctest.Wait()
		require.Equal(t, 1, n.Stats().Delayed)
		n.RemoveOrphanedStatuses(func(types.UID) bool { return false })
		assert.Equal(t, statusmanager.Stats{}, n.Stats())
	})
}

// A static pod that ends again and again has the budget of each other pod.
func TestEndsOfAStaticPodHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := testPod("a", static)
		n.server.CreateMirror(pod)
		inject(t, n.server, statustest.Fault{Err: errors.New("broken")})
		for range 500 {
			n.set(pod, status(v1.PodRunning, running("main")))
			time.Sleep(100 * time.Millisecond)
			n.set(pod, status(v1.PodFailed, exited("main", 1)))
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, len(n.server.Journal()), 5+10)
	})
}

// The workers that are reserved for pods whose requests were answered are not for a pod that has made no request.
func TestPodWithoutARequestIsNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, running("main")))
		settle()
		n.stop()
		server := n.server
		before := len(server.Journal())
		m := newManager(t, statusmanager.Options{Patcher: server, Workers: 5, Jitter: func(d time.Duration) time.Duration { return d }})
		m.Observed(server.Get("a"))
		start(t, m)
		set := func(pod *v1.Pod, s v1.PodStatus) {
			_, err := m.SetPodStatus(pod, s)
			require.NoError(t, err)
		}
		set(pod, server.Get("a").Status)
		require.NoError(t, m.WaitSynced(t.Context(), "a"))
		require.Len(t, server.Journal(), before, "the server has this status")
		trouble := server.Create(testPod("trouble"))
		inject(t, server, statustest.Fault{Pod: trouble.Name, Times: 1, Err: errors.New("broken")})
		inject(t, server, statustest.Fault{Pod: trouble.Name, HangUntilCtx: true})
		set(trouble, status(v1.PodRunning, running("main"))) // fails, and is tried again after 500 ms
		time.Sleep(490 * time.Millisecond)
		for _, uid := range uids("p", 3) {
			hanging := server.Create(testPod(uid))
			inject(t, server, statustest.Fault{Pod: hanging.Name, HangUntilCtx: true})
			set(hanging, status(v1.PodRunning, running("main")))
		}
		time.Sleep(20 * time.Millisecond)
		require.Equal(t, 4, m.Stats().InFlight)
		began := time.Now()
		set(pod, status(v1.PodRunning, ready("main")))
		require.NoError(t, m.WaitSynced(t.Context(), "a"))
		assert.Equal(t, 480*time.Millisecond, time.Since(began), "until the requests of the new pods are overdue")
	})
}
