// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// The end of the agent waits for a pod that is being stopped because its source no longer has it.
func TestTheEndOfTheAgentWaitsForPodsThatAreEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) { o.OnShutdown = node.StopPods }})
		n.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 20 * time.Second})
		n.Apply(nodetest.Pod("web", nodetest.Container("c")))
		time.Sleep(time.Second)
		n.Apply()
		began := time.Now()
		n.Shutdown()
		require.Equal(t, 20*time.Second, time.Since(began).Truncate(time.Second))
		require.Equal(t, 1, n.World.Count(fake.Target{Op: fake.OpStopContainer, Container: "c"}))
	})
}

// A node that lost its records does not run pods again that have ended on the API server or, while
// the API server is unreachable, in a checkpoint.
func TestAnOverPodDoesNotRunAgainAfterAReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		n := nodetest.New(t, nodetest.Options{API: server})
		n.World.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 0))
		pod := n.Bind(nodetest.Pod("job", nodetest.Container("c"), nodetest.RestartPolicy(v1.RestartPolicyNever)))
		time.Sleep(10 * time.Second)
		require.Equal(t, v1.PodSucceeded, server.Get(pod.UID).Status.Phase)
		n.Shutdown()
		n.World.Reboot()
		require.NoError(t, n.World.LoseRecords(pod.UID, "c"))
		n.RestartAgent()
		time.Sleep(time.Minute)
		n.Settle()
		require.Len(t, starts(n, "c"), 1)
		require.Equal(t, v1.PodSucceeded, server.Get(pod.UID).Status.Phase)
	})
}

// Changes during an outage of the API server, including the deletion, are written after the outage,
// also by a new agent.
func TestAPodThatEndedWhileTheAPIServerWasAwayIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		n := nodetest.New(t, nodetest.Options{API: server})
		pod := n.Bind(nodetest.Pod("web", nodetest.Container("c"), nodetest.GracePeriod(1)))
		time.Sleep(time.Second)
		away, err := server.Inject(statustest.Fault{Err: errors.New("connection refused")})
		require.NoError(t, err)
		_, err = server.Delete(pod.UID)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NotNil(t, server.Get(pod.UID))
		n.RestartAgent()
		time.Sleep(time.Minute)
		away.Clear()
		time.Sleep(30 * time.Second)
		n.Settle()
		require.Nil(t, server.Get(pod.UID))
		require.Empty(t, n.Agent.Pods())
		require.Len(t, starts(n, "c"), 1)
	})
}
