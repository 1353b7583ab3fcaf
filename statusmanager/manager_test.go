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
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// patchOnly hides the Getter of the server.
type patchOnly struct{ statusmanager.Patcher }

// flight fails the test if two requests for one pod overlap.
type flight struct {
	*statustest.Server
	t    *testing.T
	busy map[types.UID]*atomic.Int32
}

func (f *flight) PatchStatus(ctx context.Context, ref statusmanager.PodRef, patch []byte) (*v1.Pod, error) {
	n := f.busy[ref.UID]
	assert.Equal(f.t, int32(1), n.Add(1), "two requests for %s", ref)
	defer n.Add(-1)
	return f.Server.PatchStatus(ctx, ref, patch)
}

// requests returns the kinds of the successful requests for a pod.
func requests(n *node, pod string) (out []string) {
	for _, e := range n.server.Journal() {
		if e.Pod.Name == pod && e.Err == nil {
			out = append(out, e.Request.String())
		}
	}
	return out
}

// TestTheEndDuringARequestIsToldAtOnce: the last container ends while the server answers the patch that keeps back the end.
func TestTheEndDuringARequestIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		n := newNode(t, statustest.Options{Latency: 20 * time.Millisecond}, statusmanager.Options{
			Safety: statusmanager.SafetyFunc(func(types.UID) bool { return !ended.Load() }),
		})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, running("main")))
		settle()
		n.set(pod, status(v1.PodFailed, exited("main", 1)))
		_, err := n.TerminatePod(pod)
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		ended.Store(true)
		_, err = n.TerminatePod(pod)
		require.NoError(t, err)
		settle()
		assert.Equal(t, v1.PodFailed, n.api("a").Phase)
	})
}

func TestDeletionAfterTermination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, running("main")))
		settle()
		pod, err := n.server.Delete("a")
		require.NoError(t, err)
		n.set(pod, status(v1.PodRunning, exited("main", 0)))
		settle()
		require.NotNil(t, n.server.Get("a"), "not before it is terminated")
		_, err = n.TerminatePod(pod)
		require.NoError(t, err)
		settle()
		assert.Nil(t, n.server.Get("a"))
		assert.Equal(t, []string{"patch", "patch", "patch", "delete"}, requests(n, "a"))
		last, ok := n.GetPodStatus("a")
		assert.True(t, ok)
		assert.Equal(t, v1.PodFailed, last.Phase)
		n.RemoveOrphanedStatuses(func(types.UID) bool { return false })
		_, ok = n.GetPodStatus("a")
		assert.False(t, ok)
	})
}

// TestDeletionKnownOnlyFromThePod: no pod is observed, and the status is on the server before the deletion.
func TestDeletionKnownOnlyFromThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{})
		m := newManager(t, statusmanager.Options{Patcher: server})
		start(t, m)
		pod := server.Create(testPod("a"))
		_, err := m.SetPodStatus(pod, status(v1.PodSucceeded, exited("main", 0)))
		require.NoError(t, err)
		_, err = m.TerminatePod(pod)
		require.NoError(t, err)
		settle()
		pod, err = server.Delete("a")
		require.NoError(t, err)
		_, err = m.TerminatePod(pod)
		require.NoError(t, err)
		settle()
		assert.Nil(t, server.Get("a"))
		assert.Equal(t, 1, server.Total(statusmanager.RequestGet), "the first time")
	})
}

func TestDeletionAfterTheEndIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		finalizer := func(p *v1.Pod) { p.Finalizers = []string{"example.com/wait"} }
		for _, pod := range []*v1.Pod{n.server.Create(testPod("a")), n.server.Create(testPod("f", finalizer))} {
			n.set(pod, status(v1.PodSucceeded, exited("main", 0)))
			settle()
			_, err := n.TerminatePod(pod)
			require.NoError(t, err)
			settle()
			_, err = n.server.Delete(pod.UID)
			require.NoError(t, err)
		}
		time.Sleep(time.Hour)
		assert.Nil(t, n.server.Get("a"))
		require.NotNil(t, n.server.Get("f"))
		assert.Equal(t, []string{"patch", "patch", "delete"}, requests(n, "f"), "once for the end, once for the conditions, and deleted once")
	})
}

// TestEndBroughtAboutByOthers is final here, too, even if there is nothing to write.
func TestEndBroughtAboutByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, waiting("main", "x")))
		settle()
		_, err := n.server.Change("a", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })
		require.NoError(t, err)
		synctest.Wait()
		got, _ := n.GetPodStatus("a")
		assert.Equal(t, v1.PodFailed, got.Phase)
		_, err = n.SetPodStatus(pod, status(v1.PodRunning, running("main")))
		require.ErrorContains(t, err, "phase stays Failed")
		settle()
		assert.Equal(t, v1.PodFailed, n.api("a").Phase)
	})
}

// TestGonePodIsAskedForAgain, rarely, if no event can report its return.
func TestGonePodIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{})
		m := newManager(t, statusmanager.Options{Patcher: server})
		start(t, m)
		_, err := m.SetPodStatus(testPod("a"), status(v1.PodRunning, running("main")))
		require.NoError(t, err)
		time.Sleep(9 * time.Minute)
		assert.Len(t, server.Journal(), 1)
		server.Create(testPod("a"))
		time.Sleep(time.Minute + 15*time.Second) // 10 s between the GET and the patch
		assert.Equal(t, v1.PodRunning, server.Get("a").Status.Phase)
	})
}

func TestReplacedPodIsLeftAlone(t *testing.T) {
	for name, getter := range map[string]bool{"getter": true, "patch only": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, statustest.Options{})
				o := statusmanager.Options{Patcher: server, Jitter: func(d time.Duration) time.Duration { return d }}
				if !getter {
					o.Patcher = patchOnly{server}
				}
				m := newManager(t, o)
				start(t, m)
				old := server.Create(testPod("a"))
				_, err := m.SetPodStatus(old, status(v1.PodRunning, running("main")))
				require.NoError(t, err)
				settle()
				server.Create(testPod("b", func(p *v1.Pod) { p.Name = "a" }))
				before := server.Get("b")
				_, err = m.SetPodStatus(old, status(v1.PodFailed, exited("main", 1)))
				require.NoError(t, err)
				settle()
				requests := len(server.Journal())
				time.Sleep(50 * time.Second)
				assert.Len(t, server.Journal(), requests, "the old pod is not asked for again and again")
				assert.Same(t, before, server.Get("b"))
			})
		})
	}
}

// TestConflictIsTriedAgain: another writer was faster on the server.
func TestConflictIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		inject(t, n.server, statustest.Fault{Request: statusmanager.RequestPatch, Times: 2,
			Err: apierrors.NewConflict(v1.Resource("pods"), "a", errors.New("the object has been modified"))})
		n.set(n.server.Create(testPod("a")), status(v1.PodRunning, running("main")))
		settle()
		assert.Equal(t, v1.PodRunning, n.api("a").Phase)
		assert.Equal(t, []string{"get", "get", "patch"}, requests(n, "a"))
	})
}

func TestFirstWriteWithoutKnowledge(t *testing.T) {
	theirs := v1.PodCondition{Type: "example.com/theirs", Status: v1.ConditionTrue}
	for name, want := range map[string][]string{"getter": {"get", "patch"}, "patch only": {"patch"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, statustest.Options{})
				o := statusmanager.Options{Patcher: server}
				if name == "patch only" {
					o.Patcher = patchOnly{server}
				}
				m := newManager(t, o)
				start(t, m)
				pod := server.Create(testPod("a", func(p *v1.Pod) { p.Status.Conditions = []v1.PodCondition{theirs} }))
				for i := range 3 {
					_, err := m.SetPodStatus(pod, status(v1.PodRunning, waiting("main", fmt.Sprint(i))))
					require.NoError(t, err)
					settle()
				}
				n := &node{t: t, server: server}
				assert.Equal(t, append(want, "patch", "patch"), requests(n, "a"))
				assert.Equal(t, theirs, *condition(n.api("a"), theirs.Type))
			})
		})
	}
}

// TestLostReply: a request may or may not have been carried out; the sent status must not survive.
func TestLostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{Patcher: nil})
		m := newManager(t, statusmanager.Options{Patcher: n.server}) // observes nothing
		start(t, m)
		pod := n.server.Create(testPod("x"))
		set := func(s v1.PodStatus) {
			_, err := m.SetPodStatus(pod, s)
			require.NoError(t, err)
		}
		with := func(reason string) v1.PodStatus {
			s := status(v1.PodRunning, running("main"))
			s.Reason = reason
			return s
		}
		set(with(""))
		settle()
		inject(t, n.server, statustest.Fault{Request: statusmanager.RequestPatch, Times: 1, DoneButReplyLost: true})
		set(with("Lost"))
		synctest.Wait()
		require.Equal(t, "Lost", n.api("x").Reason)
		set(with("")) // as the last answer had it
		settle()
		settle()
		assert.Empty(t, n.api("x").Reason)
	})
}

func TestRejectedStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		fault := inject(t, n.server, statustest.Fault{Err: apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil)})
		n.set(pod, status(v1.PodRunning, waiting("main", "bad")))
		time.Sleep(55 * time.Second)
		assert.Equal(t, 1, fault.Hits(), "the same will not be taken a second later")
		time.Sleep(10 * time.Second)
		assert.Equal(t, 2, fault.Hits())
		n.set(pod, status(v1.PodRunning, running("main")))
		synctest.Wait()
		assert.Equal(t, 3, fault.Hits(), "another may be")
		fault.Clear()
		n.set(pod, status(v1.PodRunning, ready("main")))
		synctest.Wait()
		assert.Equal(t, v1.PodRunning, n.api("a").Phase)
	})
}

// TestSlowPodHoldsNobodyUp: one pod with hanging requests occupies one worker.
func TestSlowPodHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: time.Millisecond}, statusmanager.Options{Workers: 2})
		inject(t, n.server, statustest.Fault{Pod: "slow", HangUntilCtx: true})
		n.set(n.server.Create(testPod("slow")), status(v1.PodRunning, ready("main")))
		for _, uid := range uids("p", 100) {
			n.set(n.server.Create(testPod(uid)), status(v1.PodRunning, ready("main")))
		}
		settle()
		assert.Equal(t, 1, n.Stats().Unsynced)
	})
}

// TestSingleFlight: also for a UID that is forgotten and comes back while a request is in flight.
func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{Latency: 100 * time.Millisecond})
		f := &flight{server, t, map[types.UID]*atomic.Int32{"a": {}}}
		m := newManager(t, statusmanager.Options{Patcher: f})
		start(t, m)
		server.Watch(m.Observed)
		pod := server.Create(testPod("a"))
		for i := range 50 {
			_, err := m.SetPodStatus(pod, status(v1.PodRunning, waiting("main", fmt.Sprint(i))))
			require.NoError(t, err)
			if i%7 == 3 {
				m.RemoveOrphanedStatuses(func(types.UID) bool { return false })
				if i%2 == 0 {
					m.Observed(server.Get("a"))
				}
			}
			time.Sleep(30 * time.Millisecond)
		}
		settle()
		assert.Equal(t, "49", server.Get("a").Status.ContainerStatuses[0].State.Waiting.Reason)
		assert.Zero(t, m.Stats().Unsynced)
	})
}

// TestReadinessGates are followed when they are observed, without a sync of the pod.
func TestReadinessGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a", gate("example.com/lb")))
		n.set(pod, status(v1.PodRunning, ready("main")))
		settle()
		assert.Equal(t, v1.ConditionFalse, conditionStatus(n.api("a"), v1.PodReady))
		for _, open := range []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionTrue} {
			_, err := n.server.Change("a", func(p *v1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions[:len(p.Status.Conditions):len(p.Status.Conditions)],
					v1.PodCondition{Type: "example.com/lb", Status: open})
				if c := condition(p.Status, "example.com/lb"); c != &p.Status.Conditions[len(p.Status.Conditions)-1] {
					c.Status = open
					p.Status.Conditions = p.Status.Conditions[:len(p.Status.Conditions)-1]
				}
			})
			require.NoError(t, err)
			synctest.Wait()
			assert.Equal(t, open, conditionStatus(n.api("a"), v1.PodReady))
			mine, _ := n.GetPodStatus("a")
			assert.Equal(t, open, conditionStatus(mine, v1.PodReady), "GetPodStatus says so, too")
			changed := n.set(pod, status(v1.PodRunning, ready("main"))) // from a pod that does not know the gate yet
			assert.False(t, changed)
		}
	})
}

func TestContainerReadinessAndStartup(t *testing.T) {
	m := newManager(t, statusmanager.Options{})
	pod := testPod("a", sidecar("proxy"))
	s := withInit(status(v1.PodRunning, running("main")), running("proxy"))
	s.ContainerStatuses[0].Started = nil
	_, err := m.SetPodStatus(pod, s)
	require.NoError(t, err)
	type call func(types.UID, string, bool) (bool, error)
	tests := []struct {
		name    string
		call    call
		id      string
		value   bool
		changed bool
	}{
		{"ready", m.SetContainerReadiness, "fake://main", true, true},
		{"ready again", m.SetContainerReadiness, "fake://main", true, false},
		{"another instance", m.SetContainerReadiness, "fake://old", false, false},
		{"no instance", m.SetContainerReadiness, "", false, false},
		{"sidecar", m.SetContainerReadiness, "fake://proxy", true, true},
		{"not started, which nobody said", m.SetContainerStartup, "fake://main", false, true},
		{"started", m.SetContainerStartup, "fake://main", true, true},
		{"started again", m.SetContainerStartup, "fake://main", true, false},
	}
	for _, tc := range tests {
		changed, err := tc.call("a", tc.id, tc.value)
		require.NoError(t, err, tc.name)
		assert.Equal(t, tc.changed, changed, tc.name)
	}
	got, _ := m.GetPodStatus("a")
	assert.Equal(t, v1.ConditionTrue, conditionStatus(got, v1.PodReady))
	assert.True(t, *got.ContainerStatuses[0].Started)
}

func TestChangesAreTold(t *testing.T) {
	var changes []statusmanager.Change
	m := newManager(t, statusmanager.Options{OnChange: func(c statusmanager.Change) { changes = append(changes, c) }})
	pod := testPod("a")
	for range 2 {
		_, err := m.SetPodStatus(pod, status(v1.PodRunning, running("main")))
		require.NoError(t, err)
	}
	_, err := m.SetContainerReadiness("a", "fake://main", true)
	require.NoError(t, err)
	require.Len(t, changes, 2)
	assert.Nil(t, changes[0].Old)
	assert.Same(t, changes[0].New, changes[1].Old)
	assert.Equal(t, []uint64{1, 2}, []uint64{changes[0].Version, changes[1].Version})
	assert.Same(t, pod, changes[1].Pod)
}

// TestOrdinaryAnswersAreNoWarnings: a missing pod and a first conflict are ordinary. A failing server and a repeated
// conflict are not.
func TestOrdinaryAnswersAreNoWarnings(t *testing.T) {
	conflict := apierrors.NewConflict(v1.Resource("pods"), "a", errors.New("the object has been modified"))
	drop := func(s *v1.PodStatus) { s.ObservedGeneration = 0 }
	for name, c := range map[string]struct {
		err         error
		count       int // of the answers
		drop        func(*v1.PodStatus)
		told, warns int
	}{
		"no error":           {conflict, 0, nil, 0, 0},
		"gone":               {apierrors.NewNotFound(v1.Resource("pods"), "a"), 1, nil, 1, 0},
		"conflict":           {conflict, 1, nil, 1, 0},
		"conflicts":          {conflict, 5, nil, 5, 3},
		"server failed":      {apierrors.NewInternalError(errors.New("no quorum")), 1, nil, 1, 1},
		"status is not kept": {conflict, 0, drop, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.DebugLevel)
				n := newNode(t, statustest.Options{Drop: c.drop}, statusmanager.Options{Logger: zap.New(core)})
				pod := n.server.Create(testPod("a"))
				if c.count > 0 {
					inject(t, n.server, statustest.Fault{Request: statusmanager.RequestPatch, Times: c.count, Err: c.err})
				}
				n.set(pod, status(v1.PodRunning, ready("main")))
				time.Sleep(time.Minute)
				assert.Equal(t, c.told, logs.Len(), logs.All())
				assert.Equal(t, c.warns, logs.FilterLevelExact(zap.WarnLevel).Len(), logs.All())
			})
		})
	}
}
