// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

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
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// A status that arrives during the request of its pod waits for the pods that are more urgent.
func TestSecondStatusWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: time.Second}, statusmanager.Options{Workers: 1})
		a, b := n.server.Create(testPod("a")), n.server.Create(testPod("b"))
		n.set(a, status(v1.PodPending, waiting("main", "first")))
		time.Sleep(500 * time.Millisecond)
		n.set(b, status(v1.PodRunning, ready("main")))
		n.set(a, status(v1.PodPending, waiting("main", "second")))
		time.Sleep(time.Minute)
		var order []string
		for _, e := range n.server.Journal() {
			require.Equal(t, statusmanager.RequestPatch, e.Request)
			order = append(order, e.Pod.Name)
		}
		assert.Equal(t, []string{"a", "b", "a"}, order)
	})
}

// lateAnswer is a server that carries requests out after their context has ended.
type lateAnswer struct{ *statustest.Server }

func (s lateAnswer) PatchStatus(ctx context.Context, ref statusmanager.PodRef, patch []byte) (*v1.Pod, error) {
	<-ctx.Done()
	return s.Server.PatchStatus(context.WithoutCancel(ctx), ref, patch)
}

// A request that succeeds after the end of Run's context has brought the server the status.
func TestSuccessAfterTheEndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{})
		var events requestLog
		n := newNode(t, statustest.Options{}, statusmanager.Options{Patcher: lateAnswer{server}, OnRequest: events.add})
		pod := server.Create(testPod("a"))
		n.Observed(pod)
		n.set(pod, status(v1.PodRunning, running("main")))
		synctest.Wait()
		require.Equal(t, 1, n.Stats().Unsynced)
		n.stop()
		assert.Equal(t, statusmanager.Stats{Pods: 1}, n.Stats())
		require.Len(t, events.all(), 1)
		require.NoError(t, events.all()[0].Err)
		assert.Equal(t, v1.PodRunning, server.Get("a").Status.Phase)
	})
}

// A status that the server refuses is sent again after a minute. Without a Getter, this also holds
// for a conflict.
func TestRefusedStatusIsSentAgainAfterAMinute(t *testing.T) {
	refused := apierrors.NewForbidden(v1.Resource("pods"), "a", nil)
	conflict := apierrors.NewConflict(v1.Resource("pods"), "a", nil)
	for name, tc := range map[string]struct {
		err     error
		patcher func(*statustest.Server) statusmanager.Patcher
	}{
		"refused":  {refused, func(s *statustest.Server) statusmanager.Patcher { return s }},
		"conflict": {conflict, func(s *statustest.Server) statusmanager.Patcher { return patchOnly{s} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, statustest.Options{})
				n := newNode(t, statustest.Options{}, statusmanager.Options{Patcher: tc.patcher(server)})
				inject(t, server, statustest.Fault{Err: tc.err})
				pod := server.Create(testPod("a"))
				n.Observed(pod)
				n.set(pod, status(v1.PodRunning, running("main")))
				time.Sleep(3*time.Minute + time.Second)
				journal := server.Journal()
				require.Len(t, journal, 4)
				for i, e := range journal {
					assert.Equal(t, time.Duration(i)*time.Minute, e.At-journal[0].At)
				}
			})
		})
	}
}

// The end of the pod on the node lets the pod be deleted at once, also if its last status was told
// a moment ago.
func TestEndWithoutANewStatusDeletesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		n.server.Create(testPod("a"))
		pod, err := n.server.Delete("a")
		require.NoError(t, err)
		main := exited("main", 0)
		main.Started = new(bool)
		n.set(pod, status(v1.PodSucceeded, main))
		settle()
		require.Equal(t, v1.PodSucceeded, n.api("a").Phase)
		changed, err := n.TerminatePod(pod)
		require.NoError(t, err)
		require.False(t, changed)
		settle()
		assert.Nil(t, n.server.Get("a"), "the pod is deleted")
	})
}

// forgetful is a cache in which a look-up makes the Manager forget all pods.
type forgetful struct {
	noPods
	forget func()
}

func (f forgetful) Pod(types.UID) (*v1.Pod, bool) {
	f.forget()
	return nil, false
}

// Pods that are forgotten during a resync are skipped.
func TestPodsAreForgottenDuringAResync(t *testing.T) {
	cache := &forgetful{forget: func() {}}
	m := newManager(t, statusmanager.Options{Pods: cache})
	for _, uid := range uids("p", 3) {
		_, err := m.SetPodStatus(testPod(uid), status(v1.PodRunning, running("main")))
		require.NoError(t, err)
	}
	cache.forget = func() { m.RemoveOrphanedStatuses(func(types.UID) bool { return false }) }
	m.Resync()
	assert.Zero(t, m.Stats().Pods)
}

// countingPods counts the look-ups in a cache.
type countingPods struct {
	statusmanager.Pods
	lookUps atomic.Int64
}

func (c *countingPods) Pod(uid types.UID) (*v1.Pod, bool) {
	c.lookUps.Add(1)
	return c.Pods.Pod(uid)
}

// Without a watch, a change by another writer is found in the cache, and undone within Options.Resync, by
// default a minute. Before, nothing is looked up.
func TestResyncFindsChangesInTheCache(t *testing.T) {
	for option, every := range map[time.Duration]time.Duration{0: time.Minute, 10 * time.Minute: 10 * time.Minute} {
		t.Run(option.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, statustest.Options{})
				cache := &countingPods{Pods: server}
				m := newManager(t, statusmanager.Options{Patcher: server, Pods: cache, Resync: option})
				start(t, m)
				pod := server.Create(testPod("a"))
				_, err := m.SetPodStatus(pod, status(v1.PodRunning, running("main")))
				require.NoError(t, err)
				require.NoError(t, m.WaitSynced(t.Context(), "a"))
				_, err = server.Change("a", func(p *v1.Pod) { p.Status.ContainerStatuses = nil })
				require.NoError(t, err)
				before := cache.lookUps.Load()
				time.Sleep(every - time.Second)
				assert.Equal(t, before, cache.lookUps.Load())
				time.Sleep(2 * time.Second)
				assert.NotEmpty(t, server.Get("a").Status.ContainerStatuses)
			})
		})
	}
}

// A static pod that has ended on the node is not ready, although its phase stays.
func TestEndedStaticPodIsNotReady(t *testing.T) {
	m := newManager(t, statusmanager.Options{})
	pod := testPod("a", static)
	_, err := m.SetPodStatus(pod, status(v1.PodRunning, ready("main")))
	require.NoError(t, err)
	_, err = m.TerminatePod(pod)
	require.NoError(t, err)
	got, _ := m.GetPodStatus("a")
	assert.Equal(t, v1.PodRunning, got.Phase)
	for _, c := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
		assert.Equal(t, v1.ConditionFalse, conditionStatus(got, c), c)
	}
}

// A hold of a status that was written meanwhile delays nothing, and does not shorten the next hold.
func TestHoldOfAWrittenStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hold = 10 * time.Second
		var n *node
		var pod *v1.Pod
		calls := 0
		n = newNode(t, statustest.Options{}, statusmanager.Options{Coalesce: func(statusmanager.Change) time.Duration {
			switch calls++; calls {
			case 1: // a newer status is written before the hold of this status begins
				n.set(pod, status(v1.PodPending, waiting("main", "second")))
				settle()
				return hold
			case 2:
				return 0
			}
			return hold
		}})
		pod = n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodPending, waiting("main", "first")))
		time.Sleep(hold / 2)
		n.set(pod, status(v1.PodPending, waiting("main", "third")))
		time.Sleep(hold - time.Second)
		assert.Equal(t, "second", n.api("a").ContainerStatuses[0].State.Waiting.Reason)
		time.Sleep(2 * time.Second)
		assert.Equal(t, "third", n.api("a").ContainerStatuses[0].State.Waiting.Reason)
	})
}

// A pod that has ended has the budget of each other pod for what is told later: only its end is free.
func TestChangesAfterTheEndHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		inject(t, n.server, statustest.Fault{Err: errors.New("broken")})
		for i := range 1000 {
			s := status(v1.PodFailed, exited("main", 1))
			s.Message = fmt.Sprint(i)
			n.set(pod, s)
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, len(n.server.Journal()), 5+5+10)
	})
}

// A pod is forgotten while a PATCH is in flight, and returns with the status that the server had before. The
// PATCH may be carried out later, so the status is sent although the known object has it.
func TestRequestForAForgottenPodIsOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{Latency: time.Second})
		m := newManager(t, statusmanager.Options{Patcher: patchOnly{server}})
		start(t, m)
		pod := server.Create(testPod("a"))
		first := status(v1.PodRunning, waiting("main", "first"))
		_, err := m.SetPodStatus(pod, first)
		require.NoError(t, err)
		require.NoError(t, m.WaitSynced(t.Context(), "a"))
		_, err = m.SetPodStatus(pod, status(v1.PodRunning, waiting("main", "second")))
		require.NoError(t, err)
		before := server.Get("a")
		time.Sleep(time.Second / 2)
		m.RemoveOrphanedStatuses(func(types.UID) bool { return false })
		m.Observed(before)
		_, err = m.SetPodStatus(pod, first)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Equal(t, "first", server.Get("a").Status.ContainerStatuses[0].State.Waiting.Reason)
	})
}

// The end of a pod is told at once when its last container has ended, also if another writer has just used up the
// requests without an interval.
func TestHeldEndIsToldAtOnceAfterReverts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		n := newNode(t, statustest.Options{}, statusmanager.Options{
			Safety: statusmanager.SafetyFunc(func(types.UID) bool { return !ended.Load() }),
		})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodFailed, exited("main", 1)))
		settle()
		require.NotEqual(t, v1.PodFailed, n.api("a").Phase)
		for range 7 {
			time.Sleep(15 * time.Second)
			_, err := n.server.Change("a", func(p *v1.Pod) { p.Status.ContainerStatuses = nil })
			require.NoError(t, err)
			settle()
			require.NotEmpty(t, n.api("a").ContainerStatuses)
		}
		ended.Store(true)
		_, err := n.server.Change("a", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
		require.NoError(t, err)
		settle()
		assert.Equal(t, v1.PodFailed, n.api("a").Phase)
	})
}
