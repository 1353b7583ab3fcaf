// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

func TestNewNamesTheBadField(t *testing.T) {
	for field, o := range map[string]statusmanager.Options{
		"Workers": {Workers: -1},
		"Drain":   {Drain: -1},
		"Resync":  {Resync: -1},
	} {
		_, err := statusmanager.New(o)
		assert.ErrorContains(t, err, "Options."+field)
	}
}

func TestInvalidPods(t *testing.T) {
	m := newManager(t, statusmanager.Options{})
	mirror := testPod("a", func(p *v1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "h"} })
	named, nameless := func(p *v1.Pod) { p.Name = "a" }, func(p *v1.Pod) { p.Name = "" }
	for name, pod := range map[string]*v1.Pod{"nil": nil, "no UID": testPod("", named), "no name": testPod("a", nameless), "mirror": mirror} {
		changed, err := m.SetPodStatus(pod, v1.PodStatus{})
		require.ErrorIs(t, err, statusmanager.ErrInvalidPod, name)
		assert.False(t, changed, name)
		changed, err = m.TerminatePod(pod)
		require.ErrorIs(t, err, statusmanager.ErrInvalidPod, name)
		assert.False(t, changed, name)
	}
	m.Observed(nil)
	_, ok := m.GetPodStatus("a")
	assert.False(t, ok)
	changed, err := m.SetContainerReadiness("a", "fake://main", true)
	require.NoError(t, err)
	assert.False(t, changed)
	require.ErrorIs(t, m.WaitSynced(t.Context(), "a"), statusmanager.ErrUnknownPod)
}

// TestWithoutPatcher: the cache works for a node without API server.
func TestWithoutPatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, statusmanager.Options{})
		stop := start(t, m)
		pod := testPod("a")
		_, err := m.SetPodStatus(pod, status(v1.PodRunning, running("main")))
		require.NoError(t, err)
		changed, err := m.SetContainerReadiness("a", "fake://main", true)
		require.NoError(t, err)
		assert.True(t, changed)
		got, ok := m.GetPodStatus("a")
		assert.True(t, ok)
		assert.Equal(t, v1.ConditionTrue, conditionStatus(got, v1.PodReady))
		m.Observed(testPod("b"))
		assert.Equal(t, 1, m.Stats().Pods)
		assert.Zero(t, m.Stats().Queued)
		stop()
	})
}

func TestRunOnceAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: time.Second}, statusmanager.Options{})
		synctest.Wait()
		require.ErrorIs(t, n.Run(t.Context()), statusmanager.ErrAlreadyRun)
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, running("main")))
		waited := make(chan error, 1)
		go func() { waited <- n.WaitSynced(context.Background(), "a") }()
		synctest.Wait()
		n.stop()
		require.ErrorIs(t, <-waited, statusmanager.ErrStopped)
		_, err := n.SetPodStatus(pod, status(v1.PodRunning, ready("main")))
		require.ErrorIs(t, err, statusmanager.ErrStopped)
		n.Observed(pod)
		n.RemoveOrphanedStatuses(func(types.UID) bool { return false })
		assert.Empty(t, n.server.Get("a").Status.ContainerStatuses, "the request in flight was cancelled")
	})
}

// TestDrain: statuses due at the end of Run are still written, the most urgent first, within the Drain time.
func TestDrain(t *testing.T) {
	for drain, want := range map[time.Duration]int{time.Second: 1 + 4, time.Minute: 20} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, statustest.Options{Latency: 200 * time.Millisecond}, statusmanager.Options{Workers: 1, Drain: drain})
			for i, uid := range uids("p", 20) {
				s := status(v1.PodRunning, running("main"))
				if i >= 16 {
					s = status(v1.PodFailed, exited("main", 1))
				}
				n.set(n.server.Create(testPod(uid)), s)
			}
			synctest.Wait() // the first one is in flight
			began := time.Now()
			n.stop()
			assert.Equal(t, min(drain, 4*time.Second), time.Since(began))
			failed, patches := 0, 0
			for i, e := range n.server.Journal() {
				if e.Err != nil {
					continue
				}
				patches++
				if e.Phase == v1.PodFailed {
					failed++
					assert.LessOrEqual(t, i, 5)
				}
			}
			assert.Equal(t, 4, failed)
			assert.GreaterOrEqual(t, patches, want)
		})
	}
}

// TestDrainWaitsForTheNextTry: a status whose request failed is tried again within the Drain time.
func TestDrainWaitsForTheNextTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{Drain: time.Minute})
		inject(t, n.server, statustest.Fault{Times: 1, Err: errors.New("broken")})
		n.set(n.server.Create(testPod("a")), status(v1.PodRunning, running("main")))
		synctest.Wait()
		require.Equal(t, 1, n.Stats().Delayed)
		n.stop()
		assert.Equal(t, v1.PodRunning, n.api("a").Phase)
	})
}

// TestSyncBatchWithoutWork: an object of the server that calls for no request is no work.
func TestSyncBatchWithoutWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{})
		m := newManager(t, statusmanager.Options{Patcher: server})
		_, err := m.SetPodStatus(server.Create(testPod("a")), status(v1.PodRunning, running("main")))
		require.NoError(t, err)
		m.Observed(server.Get("a"))
		require.Equal(t, 1, m.SyncBatch(t.Context()))
		time.Sleep(time.Minute) // nothing holds a request up
		_, err = server.Change("a", func(pod *v1.Pod) { pod.Labels = map[string]string{"a": "b"} })
		require.NoError(t, err)
		m.Observed(server.Get("a"))
		assert.Zero(t, m.SyncBatch(t.Context()))
	})
}

// TestSyncBatch drives the manager without Run.
func TestSyncBatch(t *testing.T) {
	server := newServer(t, statustest.Options{})
	m := newManager(t, statusmanager.Options{Patcher: server, Pods: server})
	for _, uid := range uids("p", 3) {
		_, err := m.SetPodStatus(server.Create(testPod(uid)), status(v1.PodRunning, running("main")))
		require.NoError(t, err)
	}
	ended, err := m.SetPodStatus(server.Create(testPod("end")), status(v1.PodSucceeded, exited("main", 0)))
	require.NoError(t, err)
	require.True(t, ended)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Zero(t, m.SyncBatch(ctx))
	assert.Equal(t, 4, m.SyncBatch(t.Context()))
	assert.Zero(t, m.SyncBatch(t.Context()))
	assert.Len(t, server.Journal(), 4)
	assert.Equal(t, "end", server.Journal()[0].Pod.Name)
}
