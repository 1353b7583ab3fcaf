// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// A hundred agents in a process, each with a pod of the same name and UID, do not affect each
// other.
func TestAHundredAgentsShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 100
		nodes := make([]*nodetest.Node, many)
		for i := range nodes {
			nodes[i] = nodetest.New(t, nodetest.Options{})
			nodes[i].World.Script(fake.Target{Container: "c"}, fake.Exit(time.Duration(i+1)*time.Second, 0))
			nodes[i].Apply(nodetest.Pod("job", nodetest.Container("c"), nodetest.RestartPolicy(v1.RestartPolicyNever)), nodetest.Pod("web", nodetest.Container("w")))
		}
		require.Equal(t, many, phases(nodes, "job")[v1.PodRunning])
		time.Sleep(many/2*time.Second + time.Millisecond)
		synctest.Wait()
		require.Equal(t, map[v1.PodPhase]int{v1.PodSucceeded: many / 2, v1.PodRunning: many / 2}, phases(nodes, "job"))

		for i, n := range nodes {
			switch i % 3 {
			case 0:
				n.RestartAgent()
			case 1:
				n.Apply() // and the other nodes keep theirs
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, n := range nodes {
			name := fmt.Sprint("node ", i)
			require.Len(t, starts(n, "c"), 1, name)
			require.Len(t, starts(n, "w"), 1, name)
			if i%3 == 1 {
				require.Empty(t, n.Agent.Pods(), name)
				continue
			}
			require.Equal(t, v1.PodRunning, n.Status("web").Phase, name)
			require.Equal(t, v1.PodSucceeded, n.Status("job").Phase, name)
			require.Equal(t, []time.Duration{time.Duration(i+1) * time.Second}, ends(n, "c"), name)
		}
	})
}

func phases(nodes []*nodetest.Node, pod string) map[v1.PodPhase]int {
	all := make(map[v1.PodPhase]int)
	for _, n := range nodes {
		all[n.Status(pod).Phase]++
	}
	return all
}
