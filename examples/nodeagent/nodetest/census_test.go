// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Pods are counted as the kubelet counts them, while they come, run, end, come back
// and are found.
func TestCensus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var restarted, orphans []types.UID
		node := nodetest.New(t, nodetest.Options{Agent: func(o *nodeagent.Options) {
			o.Observer.PodRestarted = func(p *v1.Pod) { restarted = append(restarted, p.UID) }
			o.Observer.OrphanFound = func(uid types.UID) { orphans = append(orphans, uid) }
		}})
		node.World.Script(fake.Target{Container: "job"}, fake.Exit(time.Second, 0))
		node.World.Script(fake.Target{Container: "slow"}, fake.Script{TermAfter: 5 * time.Second})
		slow := nodetest.Pod("slow", nodetest.Container("slow"))
		job := nodetest.Pod("job", nodetest.Container("job"), nodetest.RestartPolicy(v1.RestartPolicyNever))
		refused := nodetest.Pod("refused", nodetest.Container("c"), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "such"} })
		work := func(s podworkers.State, c nodeagent.Config, static bool) nodeagent.Work {
			return nodeagent.Work{State: s, Config: c, Static: static}
		}

		node.Apply(slow, job, refused)
		time.Sleep(10 * time.Second)
		require.Equal(t, nodeagent.Census{
			Desired: map[bool]int{true: 3},
			Active:  map[bool]int{true: 1},
			Working: map[nodeagent.Work]int{
				work(podworkers.StateSync, nodeagent.ConfigDesired, true):       1,
				work(podworkers.StateTerminated, nodeagent.ConfigDesired, true): 1,
			},
		}, node.Agent.Census())

		node.Apply(job)
		require.Equal(t, map[bool]int{true: 1}, node.Agent.Census().Desired)
		require.Equal(t, 1, node.Agent.Census().Working[work(podworkers.StateTerminating, nodeagent.ConfigOrphan, true)])
		node.Apply(job, slow)
		require.Equal(t, map[bool]int{true: 1}, node.Agent.Census().Active, "it still ends, and is to run again")
		time.Sleep(10 * time.Second)
		node.Settle()
		require.Equal(t, []types.UID{slow.UID}, restarted)
		require.Equal(t, 1, node.Agent.Census().Working[work(podworkers.StateSync, nodeagent.ConfigDesired, true)])

		require.Empty(t, orphans)
		node.StopAgent()
		node.Apply()
		node.StartAgent()
		time.Sleep(time.Second)
		require.Equal(t, 1, node.Agent.Census().Working[work(podworkers.StateTerminating, nodeagent.ConfigRuntimeOnly, false)])
		time.Sleep(time.Minute)
		node.Settle()
		require.Equal(t, []types.UID{slow.UID}, orphans, "once")
		require.Empty(t, node.Agent.Census().Working)
	})
}
