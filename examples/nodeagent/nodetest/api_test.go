// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

func newServer(t *testing.T) *statustest.Server {
	t.Helper()
	server, err := statustest.New(statustest.Options{Latency: 20 * time.Millisecond})
	require.NoError(t, err)
	return server
}

// The whole life of a pod on an API server: bound, running, ready, deleted by a client, stopped
// with its grace period, and gone.
func TestAPodOfAnAPIServerLivesAndIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		node := nodetest.New(t, nodetest.Options{API: server})
		node.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 2 * time.Second, ReadyAfter: time.Second})
		pod := node.Bind(nodetest.Pod("web", nodetest.Container("c"), probed))
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, v1.PodRunning, server.Get(pod.UID).Status.Phase, "within a tenth of a second")
		require.Equal(t, v1.ConditionFalse, condition(server.Get(pod.UID).Status, v1.PodReady).Status)
		time.Sleep(2 * time.Second)
		require.Equal(t, v1.ConditionTrue, condition(server.Get(pod.UID).Status, v1.PodReady).Status)

		_, err := server.Delete(pod.UID)
		require.NoError(t, err)
		time.Sleep(1900 * time.Millisecond)
		require.NotNil(t, server.Get(pod.UID), "it still ends")
		time.Sleep(200 * time.Millisecond)
		require.Nil(t, server.Get(pod.UID))
		require.Empty(t, node.Agent.Pods())
		require.LessOrEqual(t, server.Total(statusmanager.RequestPatch), 6)
		require.Zero(t, server.Total(statusmanager.RequestGet), "no read before a write")
	})
}

func TestAPodThatEndsIsToldAndNeverRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		node := nodetest.New(t, nodetest.Options{API: server})
		node.World.Script(fake.Target{Container: "c"}, fake.Exit(5*time.Second, 0))
		pod := node.Bind(nodetest.Pod("job", nodetest.Container("c"), nodetest.RestartPolicy(v1.RestartPolicyNever)))
		time.Sleep(6 * time.Second)
		require.Equal(t, v1.PodSucceeded, server.Get(pod.UID).Status.Phase)
		node.RestartAgent()
		time.Sleep(time.Minute)
		node.Settle()
		require.Equal(t, v1.PodSucceeded, server.Get(pod.UID).Status.Phase)
		require.Len(t, starts(node, "c"), 1)
	})
}

// An unreachable API server delays nothing on the node, and receives the statuses after the outage.
func TestPodsGoOnWithoutTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		node := nodetest.New(t, nodetest.Options{API: server})
		node.World.Script(fake.Target{Container: "c"}, fake.Exit(30*time.Second, 1), fake.Script{})
		pod := node.Bind(nodetest.Pod("web", nodetest.Container("c")))
		time.Sleep(time.Second)
		away, err := server.Inject(statustest.Fault{Err: errors.New("connection refused")})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Len(t, starts(node, "c"), 2)
		require.Zero(t, server.Get(pod.UID).Status.ContainerStatuses[0].RestartCount)
		away.Clear()
		time.Sleep(40 * time.Second)
		require.EqualValues(t, 1, server.Get(pod.UID).Status.ContainerStatuses[0].RestartCount)
	})
}

// After a forced deletion of the object the pod is stopped.
func TestAPodThatVanishesIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{API: newServer(t)})
		pod := node.Bind(nodetest.Pod("web", nodetest.Container("c"), nodetest.GracePeriod(1)))
		time.Sleep(time.Second)
		node.Evict(pod.UID)
		time.Sleep(5 * time.Second)
		node.Settle()
		require.Empty(t, node.Agent.Pods())
		require.NoError(t, node.World.NoOverlap())
	})
}

// A watch event after the deletion of a pod does not bring the pod back.
func TestAChangeThatIsToldTooLateBringsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		server.Watch(func(pod *v1.Pod) { // is told before the node is, and holds it up
			if pod.Name == "slow" {
				time.Sleep(time.Minute)
			}
		})
		node := nodetest.New(t, nodetest.Options{API: server})
		pod := node.Bind(nodetest.Pod("web", nodetest.Container("c")))
		_, err := server.Delete(pod.UID)
		require.NoError(t, err)
		server.Create(nodetest.Pod("slow")) // of no node; until it is told, nothing else is
		require.Nil(t, server.Get(pod.UID))
		time.Sleep(time.Minute)
		require.Empty(t, node.Agent.Pods())
	})
}
