// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Pods are counted as in the kubelet while they arrive, run, end, come back and are found.
func TestCensus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var restarted, orphans []types.UID
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			o.Observer.PodRestarted = func(p *v1.Pod) { restarted = append(restarted, p.UID) }
			o.Observer.OrphanFound = func(uid types.UID) { orphans = append(orphans, uid) }
		}})
		n.World.Script(fake.Target{Container: "job"}, fake.Exit(time.Second, 0))
		n.World.Script(fake.Target{Container: "slow"}, fake.Script{TermAfter: 5 * time.Second})
		slow := nodetest.Pod("slow", nodetest.Container("slow"))
		job := nodetest.Pod("job", nodetest.Container("job"), nodetest.RestartPolicy(v1.RestartPolicyNever))
		refused := nodetest.Pod("refused", nodetest.Container("c"), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "such"} })
		work := func(s podworkers.State, c node.Config, static bool) node.Work {
			return node.Work{State: s, Config: c, Static: static}
		}

		n.Apply(slow, job, refused)
		time.Sleep(10 * time.Second)
		require.Equal(t, node.Census{
			Desired: map[bool]int{true: 3},
			Active:  map[bool]int{true: 1},
			Working: map[node.Work]int{
				work(podworkers.StateSync, node.ConfigDesired, true):       1,
				work(podworkers.StateTerminated, node.ConfigDesired, true): 1,
			},
		}, n.Agent.Census())

		n.Apply(job)
		require.Equal(t, map[bool]int{true: 1}, n.Agent.Census().Desired)
		require.Equal(t, 1, n.Agent.Census().Working[work(podworkers.StateTerminating, node.ConfigOrphan, true)])
		n.Apply(job, slow)
		require.Equal(t, map[bool]int{true: 1}, n.Agent.Census().Active, "it still ends, and is to run again")
		time.Sleep(10 * time.Second)
		n.Settle()
		require.Equal(t, []types.UID{slow.UID}, restarted)
		require.Equal(t, 1, n.Agent.Census().Working[work(podworkers.StateSync, node.ConfigDesired, true)])

		require.Empty(t, orphans)
		n.StopAgent()
		n.Apply()
		n.StartAgent()
		time.Sleep(time.Second)
		require.Equal(t, 1, n.Agent.Census().Working[work(podworkers.StateTerminating, node.ConfigRuntimeOnly, false)])
		time.Sleep(time.Minute)
		n.Settle()
		require.Equal(t, []types.UID{slow.UID}, orphans, "once")
		require.Empty(t, n.Agent.Census().Working)
	})
}
