// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// slowly lets a pod's container pass its probe a minute after its start, with a probe every minute.
func slowly(p *v1.Pod) {
	probe := httpGet("/ready", 60, 1)
	probe.InitialDelaySeconds = 60
	p.Spec.Containers[0].ReadinessProbe = probe
}

// kubernetes#133579: the kubelet considers every probed pod unready at its start, so that a restart
// of the kubelet empties services.
func TestUpstream133579ARestartOfTheAgentDoesNotFlapReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		pod := nodetest.Pod("web", nodetest.Container("c"))
		slowly(pod)
		node.Apply(pod)
		ready := func() bool { return node.Status("web").ContainerStatuses[0].Ready }
		require.False(t, ready())
		time.Sleep(61 * time.Second)
		node.Settle()
		require.True(t, ready())
		before := len(node.History().Statuses)

		for range 3 { // each agent learns it from the one before
			time.Sleep(10 * time.Second)
			node.RestartAgent()
			require.True(t, ready())
		}
		for _, s := range node.History().Statuses[before:] {
			require.True(t, s.Status.ContainerStatuses[0].Ready, "published at %v", s.At)
		}

		// The remembered result belongs to an instance. The next instance has to pass its probe.
		require.NoError(t, node.World.Kill(pod.UID, "c", 1))
		time.Sleep(5 * time.Second)
		node.Settle()
		require.EqualValues(t, 1, node.Status("web").ContainerStatuses[0].RestartCount)
		require.False(t, ready())
		node.RestartAgent()
		require.False(t, ready())
	})
}

func TestOnlyStaticPodsThatAreWantedAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		remembered := func() int {
			time.Sleep(time.Minute)
			node.Settle()
			data, err := os.ReadFile(filepath.Join(node.Root(), "ready.json"))
			require.NoError(t, err)
			var pods map[types.UID]any
			require.NoError(t, json.Unmarshal(data, &pods))
			return len(pods)
		}
		done := nodetest.Pod("done", nodetest.Container("c"), slowly)
		done.Spec.RestartPolicy = v1.RestartPolicyNever
		node.World.Script(fake.Target{Pod: "done"}, fake.Exit(time.Second, 0))
		a, b := nodetest.Pod("a", nodetest.Container("c"), slowly), nodetest.Pod("b", nodetest.Container("c"), slowly)
		node.Apply(a, b, done, nodetest.Pod("unprobed", nodetest.Container("c")))
		require.Equal(t, 2, remembered())
		node.Apply(a)
		node.RestartAgent()
		require.Equal(t, 1, remembered())
	})
}

func TestABrokenMemoryIsDoneWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		node.Apply(nodetest.Pod("a", nodetest.Container("c")))
		time.Sleep(time.Minute)
		node.Shutdown()
		require.NoError(t, os.WriteFile(filepath.Join(node.Root(), "ready.json"), []byte("what"), 0o600))
		node.RestartAgent()
		require.Equal(t, v1.PodRunning, node.Status("a").Phase)
	})
}
