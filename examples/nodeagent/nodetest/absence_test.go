// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// A pod that is being stopped because its source does not have it any more is
// waited for when the agent ends meanwhile.
func TestTheEndOfTheAgentWaitsForPodsThatAreEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{Agent: func(o *nodeagent.Options) { o.OnShutdown = nodeagent.StopPods }})
		node.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 20 * time.Second})
		node.Apply(nodetest.Pod("web", nodetest.Container("c")))
		time.Sleep(time.Second)
		node.Apply()
		began := time.Now()
		node.Shutdown()
		require.Equal(t, 20*time.Second, time.Since(began).Truncate(time.Second))
		require.Equal(t, 1, node.World.Count(fake.Target{Op: fake.OpStopContainer, Container: "c"}))
	})
}

// A node that lost its records does not run again what the API server knows to be
// over, nor what is over in a checkpoint while the API server is away.
func TestAnOverPodDoesNotRunAgainAfterAReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		node := nodetest.New(t, nodetest.Options{API: server})
		node.World.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 0))
		pod := node.Bind(nodetest.Pod("job", nodetest.Container("c"), nodetest.RestartPolicy(v1.RestartPolicyNever)))
		time.Sleep(10 * time.Second)
		require.Equal(t, v1.PodSucceeded, server.Get(pod.UID).Status.Phase)
		node.Shutdown()
		node.World.Reboot()
		require.NoError(t, node.World.LoseRecords(pod.UID, "c"))
		node.RestartAgent()
		time.Sleep(time.Minute)
		node.Settle()
		require.Len(t, starts(node, "c"), 1)
		require.Equal(t, v1.PodSucceeded, server.Get(pod.UID).Status.Phase)
	})
}

// What happened while the API server was away, the deletion included, is made up
// for when it is back, with an agent that is new as well.
func TestAPodThatEndedWhileTheAPIServerWasAwayIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		node := nodetest.New(t, nodetest.Options{API: server})
		pod := node.Bind(nodetest.Pod("web", nodetest.Container("c"), nodetest.GracePeriod(1)))
		time.Sleep(time.Second)
		away, err := server.Inject(statustest.Fault{Err: errors.New("connection refused")})
		require.NoError(t, err)
		_, err = server.Delete(pod.UID)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NotNil(t, server.Get(pod.UID))
		node.RestartAgent()
		time.Sleep(time.Minute)
		away.Clear()
		time.Sleep(30 * time.Second)
		node.Settle()
		require.Nil(t, server.Get(pod.UID))
		require.Empty(t, node.Agent.Pods())
		require.Len(t, starts(node, "c"), 1)
	})
}
