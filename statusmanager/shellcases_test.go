// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// A held status that the server has by then is not sent, and no call waits for the end of the hold.
func TestWatchConfirmsAHeldStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{Coalesce: func(statusmanager.Change) time.Duration { return time.Hour }})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, running("main")))
		time.Sleep(2 * time.Hour)
		n.set(pod, status(v1.PodRunning, waiting("main", "CrashLoopBackOff")))
		synctest.Wait()
		ours, known := n.GetPodStatus("a")
		require.True(t, known)
		before := len(n.server.Journal())
		_, err := n.server.Change("a", func(pod *v1.Pod) { pod.Status = ours })
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, n.WaitSynced(t.Context(), "a"))
		assert.Zero(t, time.Since(began))
		assert.Len(t, n.server.Journal(), before)
	})
}

// A deletion that only the caller's pod tells is carried out at once, also if the status of the pod stays.
func TestDeletionOfAPodWithoutNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{})
		m := newManager(t, statusmanager.Options{Patcher: server})
		start(t, m)
		pod := server.Create(testPod("a"))
		_, err := m.TerminatePod(pod)
		require.NoError(t, err)
		time.Sleep(time.Minute + time.Second/2)
		ours, _ := m.GetPodStatus("a")
		pod, err = server.Delete("a")
		require.NoError(t, err)
		changed, err := m.SetPodStatus(pod, ours)
		require.NoError(t, err)
		require.False(t, changed)
		settle()
		assert.Nil(t, server.Get("a"))
	})
}

// Only a patch can be refused. The deletion of a pod whose last patch was refused is not.
func TestDeletionIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events requestLog
		n := newNode(t, statustest.Options{}, statusmanager.Options{OnRequest: events.add})
		pod := n.server.Create(testPod("a"))
		n.server.Poison("a", statustest.Hostility{Mutate: func(_, after *v1.Pod, _ int) { after.Status.Message = "the webhook's" }})
		n.set(pod, status(v1.PodRunning, running("main")))
		settle()
		pod, err := n.server.Delete("a")
		require.NoError(t, err)
		_, err = n.TerminatePod(pod)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		refused := map[statusmanager.Request]bool{}
		for _, ev := range events.all() {
			refused[ev.Request] = refused[ev.Request] || ev.Refused
		}
		assert.Equal(t, map[statusmanager.Request]bool{statusmanager.RequestPatch: true, statusmanager.RequestDelete: false}, refused)
	})
}

// The first status of a pod that has ended is compared with the object that the agent has: nothing is asked, and nothing sent
// twice.
func TestTerminatedPodOfTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{})
		pod := server.Create(testPod("a"))
		first := newManager(t, statusmanager.Options{Patcher: server, Pods: server})
		stop := start(t, first)
		_, err := first.SetPodStatus(pod, status(v1.PodRunning, running("main")))
		require.NoError(t, err)
		_, err = first.TerminatePod(pod)
		require.NoError(t, err)
		settle()
		stop()
		before := len(server.Journal())
		next := newManager(t, statusmanager.Options{Patcher: server, Pods: server})
		changed, err := next.TerminatePod(pod) // an old object, without the end
		require.NoError(t, err)
		assert.True(t, changed)
		start(t, next)
		settle()
		for _, request := range server.Journal()[before:] {
			assert.NotEqual(t, statusmanager.RequestGet, request.Request)
		}
	})
}

// A server that refuses the end of a pod is asked again each minute.
func TestRefusedEndIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		n.server.Poison("a", statustest.Hostility{Mutate: func(before, after *v1.Pod, _ int) { after.Status.Phase = before.Status.Phase }})
		n.set(pod, status(v1.PodSucceeded, exited("main", 0)))
		time.Sleep(30 * time.Second)
		count := func() (patches int) {
			for _, request := range n.server.Journal() {
				if request.Request == statusmanager.RequestPatch {
					patches++
				}
			}
			return patches
		}
		before := count()
		require.NotZero(t, before)
		time.Sleep(time.Minute)
		assert.Equal(t, before+1, count())
	})
}
