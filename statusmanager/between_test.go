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

	"github.com/keelson-dev/keelson/internal/contexttest"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// While Observed looks at a pod, the pod is forgotten and returns. That the server has the earlier
// status of the pod says nothing about the new status.
func TestPodThatReturnsDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ask func()
		safety := statusmanager.SafetyFunc(func(types.UID) bool {
			if now := ask; now != nil {
				ask = nil
				now()
			}
			return true
		})
		n := newNode(t, statustest.Options{Latency: time.Second}, statusmanager.Options{Safety: safety})
		pod := n.server.Create(testPod("a"))
		for _, reason := range []string{"one", "two", "three"} {
			n.set(pod, status(v1.PodRunning, waiting("main", reason)))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		ask = func() {
			n.set(pod, status(v1.PodRunning, waiting("main", "four")))
			time.Sleep(time.Millisecond) // its request begins
			n.RemoveOrphanedStatuses(func(types.UID) bool { return false })
			n.set(pod, status(v1.PodRunning, ready("main")))
		}
		object := n.server.Get("a").DeepCopy()
		object.ResourceVersion += "0"
		n.Observed(object)
		require.NoError(t, n.WaitSynced(t.Context(), "a"))
		assert.True(t, n.api("a").ContainerStatuses[0].Ready)
	})
}

// A wait that is given up says why, and about which pod.
func TestWaitThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: time.Minute}, statusmanager.Options{})
		n.set(n.server.Create(testPod("a")), status(v1.PodRunning, running("main")))
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the node shuts down")
		time.AfterFunc(time.Second, func() { cancel(why) })
		err := n.WaitSynced(ctx, "a")
		require.ErrorIs(t, err, why)
		require.ErrorContains(t, err, "pod a:")
	})
}

// serverCache is a cache with the pods of a server.
type serverCache struct{ *statustest.Server }

// The end of a pod without a status is compared with the status of an earlier agent in the cache.
func TestEndOfAPodOfAnEarlierAgent(t *testing.T) {
	server := newServer(t, statustest.Options{})
	pod := server.Create(testPod("a"))
	_, err := server.Change("a", func(p *v1.Pod) { p.Status = status(v1.PodRunning, exited("main", 3)) })
	require.NoError(t, err)
	m := newManager(t, statusmanager.Options{Pods: serverCache{server}})
	_, err = m.TerminatePod(pod) // its status is older than that of the cache
	require.NoError(t, err)
	got, _ := m.GetPodStatus("a")
	require.Len(t, got.ContainerStatuses, 1)
	assert.EqualValues(t, 3, got.ContainerStatuses[0].State.Terminated.ExitCode)
}

// The context of SyncBatch may live as long as the program: a request leaves nothing behind at it.
func TestBatchLeavesNothingAtTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{})
		m := newManager(t, statusmanager.Options{Patcher: server})
		ctx := contexttest.New(t.Context())
		for _, uid := range uids("p", 3) {
			_, err := m.SetPodStatus(server.Create(testPod(uid)), status(v1.PodRunning, running("main")))
			require.NoError(t, err)
			before := ctx.Waiting()
			assert.Equal(t, 1, m.SyncBatch(ctx))
			synctest.Wait()
			assert.Equal(t, before, ctx.Waiting())
		}
	})
}

// A wait for a pod that is forgotten ends at once, also while a request for the pod is in flight.
func TestWaitForAPodThatIsForgottenInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: time.Second}, statusmanager.Options{})
		n.set(n.server.Create(testPod("a")), status(v1.PodRunning, running("main")))
		done := make(chan error, 1)
		go func() { done <- n.WaitSynced(t.Context(), "a") }()
		synctest.Wait()
		n.RemoveOrphanedStatuses(func(types.UID) bool { return false })
		require.ErrorIs(t, <-done, statusmanager.ErrUnknownPod)
		require.ErrorIs(t, n.WaitSynced(t.Context(), "a"), statusmanager.ErrUnknownPod)
	})
}
