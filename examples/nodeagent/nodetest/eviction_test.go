// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/eviction"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
)

// memory measures a node on which each pod uses as much as the test says. It implements eviction.Observer.
type memory struct {
	mu   sync.Mutex
	uses map[string]int64 // by the name of an active pod
}

func (m *memory) set(uses map[string]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uses = uses
}

func (m *memory) Levels(context.Context) (eviction.Levels, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := pressure.Reading{Available: 1000, Capacity: 1000, At: time.Now()}
	for _, n := range m.uses {
		r.Available -= n
	}
	return eviction.Levels{Readings: map[pressure.Signal]pressure.Reading{pressure.MemoryAvailable: r}}, nil
}

func (m *memory) Usage(_ context.Context, pods []*v1.Pod) (all []pressure.Usage, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pod := range pods {
		all = append(all, pressure.Usage{Pod: pod, Known: true, Memory: m.uses[pod.Name]})
	}
	return all, nil
}

// evicting adds the feature to an agent, with a threshold of 100.
func evicting(t *testing.T, m *memory) func(*node.Options) {
	return func(o *node.Options) {
		manager, err := eviction.New(eviction.Options{Observer: m, Policy: pressure.Policy{
			Thresholds: []pressure.Threshold{{Signal: pressure.MemoryAvailable, Below: pressure.Amount{Value: 100}}}, Hold: pressure.DefaultHold,
		}})
		require.NoError(t, err)
		o.Features = func(h *feature.Host) []feature.Feature {
			return []feature.Feature{manager.Feature(h, eviction.HostOptions{NodeName: o.NodeName})}
		}
	}
}

// The pod with the most memory is evicted as by the kubelet, new pods without requests are refused as long as the
// condition holds, and other running pods stay.
func TestAPodIsEvictedUnderMemoryPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uses := &memory{}
		n := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: evicting(t, uses)})
		small, large, late := nodetest.Pod("small", nodetest.Container("c")), nodetest.Pod("large", nodetest.Container("c")), nodetest.Pod("late", nodetest.Container("c"))
		n.Apply(small, large)
		uses.set(map[string]int64{"small": 100, "large": 850})
		time.Sleep(10 * time.Second)
		n.Settle()
		uses.set(map[string]int64{"small": 100})
		time.Sleep(5 * time.Second)
		n.Settle()
		status := n.Status("large")
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Equal(t, "Evicted", status.Reason)
		require.Equal(t, "The node was low on resource: memory. Threshold quantity: 100, available: 50. ", status.Message)
		var target *v1.PodCondition
		for i := range status.Conditions {
			if status.Conditions[i].Type == v1.DisruptionTarget {
				target = &status.Conditions[i]
			}
		}
		require.NotNil(t, target)
		require.Equal(t, v1.PodReasonTerminationByKubelet, target.Reason)
		require.Equal(t, []string{"large"}, eventsOf(n, "Evicted"))
		require.Len(t, eventsOf(n, "EvictionThresholdMet"), 1)

		n.Apply(small, large, late)
		time.Sleep(time.Second)
		require.Equal(t, "Evicted", n.Status("late").Reason)
		require.Equal(t, "Pod was rejected: The node had condition: [MemoryPressure]. ", n.Status("late").Message)
		require.Equal(t, v1.PodRunning, n.Status("small").Phase)
		uses.set(nil)
		time.Sleep(6 * time.Minute)
		last := nodetest.Pod("last", nodetest.Container("c"))
		n.Apply(small, large, late, last)
		time.Sleep(time.Minute)
		require.Equal(t, v1.PodRunning, n.Status("last").Phase)
		require.Equal(t, v1.PodRunning, n.Status("small").Phase)
	})
}

// A static pod is critical: it is neither evicted nor refused.
func TestStaticPodsAreNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uses := &memory{}
		n := nodetest.New(t, nodetest.Options{Agent: evicting(t, uses)})
		uses.set(map[string]int64{"web": 950})
		time.Sleep(11 * time.Second)
		n.Apply(nodetest.Pod("web", nodetest.Container("c")))
		time.Sleep(time.Hour)
		require.Equal(t, v1.PodRunning, n.Status("web").Phase)
		require.Empty(t, eventsOf(n, "Evicted"))
	})
}
