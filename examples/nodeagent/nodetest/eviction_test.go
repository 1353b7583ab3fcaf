// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"slices"
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
	"github.com/keelson-dev/keelson/runtime/fake"
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

// layers measures the disk of a node: the writable layer of a container takes space until the container is removed. It
// implements eviction.Observer.
type layers struct {
	world *fake.World
	mu    sync.Mutex
	sizes map[string]int64 // by the name of the pod
}

func (l *layers) set(sizes map[string]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes = sizes
}

// pods returns the names of the pods with containers.
func (l *layers) pods() (names []string) {
	for _, pod := range l.world.Truth() {
		if len(pod.Containers) > 0 {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (l *layers) Levels(context.Context) (eviction.Levels, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := pressure.Reading{Available: 1000, Capacity: 1000, At: time.Now()}
	for _, pod := range l.world.Truth() {
		r.Available -= l.sizes[pod.Name] * int64(len(pod.Containers))
	}
	return eviction.Levels{Readings: map[pressure.Signal]pressure.Reading{pressure.NodeFSAvailable: r}}, nil
}

func (l *layers) Usage(_ context.Context, pods []*v1.Pod) (all []pressure.Usage, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pod := range pods {
		layer := pressure.ContainerUsage{Name: "c", Root: pressure.Disk{Bytes: l.sizes[pod.Name]}}
		all = append(all, pressure.Usage{Pod: pod, Known: true, Containers: []pressure.ContainerUsage{layer}})
	}
	return all, nil
}

// evicting adds the feature to an agent, with a threshold of 100.
func evicting(t *testing.T, m *memory) func(*node.Options) {
	return evictingFor(t, m, pressure.Threshold{Signal: pressure.MemoryAvailable, Below: pressure.Amount{Value: 100}}, 0)
}

// evictingFor adds the feature to an agent, with a threshold and the longest grace period for soft evictions.
func evictingFor(t *testing.T, m eviction.Observer, threshold pressure.Threshold, maxGrace time.Duration) func(*node.Options) {
	return func(o *node.Options) {
		manager, err := eviction.New(eviction.Options{Observer: m, Policy: pressure.Policy{
			Thresholds: []pressure.Threshold{threshold}, Hold: pressure.DefaultHold, MaxGrace: maxGrace,
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

// What an evicted pod has left on the disk is removed while the pod is still there for its owner to look at, so that no
// other pod is evicted in its place. The next agent lets the pod be.
func TestAnEvictedPodFreesItsDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world, err := fake.NewWorld(fake.WorldOptions{})
		require.NoError(t, err)
		disk := &layers{world: world, sizes: map[string]int64{"large": 850, "small": 100}}
		soft := pressure.Threshold{Signal: pressure.NodeFSAvailable, Below: pressure.Amount{Value: 100}, Grace: 30 * time.Second}
		n := nodetest.New(t, nodetest.Options{World: world, API: newServer(t), Agent: evictingFor(t, disk, soft, 30*time.Second)})
		large := n.Bind(nodetest.Pod("large", nodetest.Container("c")))
		n.Bind(nodetest.Pod("small", nodetest.Container("c")))
		time.Sleep(2 * time.Minute)
		n.Settle()
		require.Equal(t, "Evicted", n.Status("large").Reason)
		require.Equal(t, v1.PodRunning, n.Status("small").Phase)
		require.Equal(t, []string{"small"}, disk.pods())
		before := n.Status("large")
		n.RestartAgent()
		time.Sleep(10 * time.Minute)
		after := n.Status("large")
		require.Equal(t, before.Message, after.Message)
		require.Equal(t, before.ContainerStatuses, after.ContainerStatuses)
		require.Equal(t, []string{"small"}, disk.pods())
		require.Equal(t, []string{"large"}, eventsOf(n, "Evicted"))
		require.Equal(t, 1, world.Count(fake.Target{UID: large.UID, Op: fake.OpStartContainer}))
	})
}

// Under pressure, pods that are over leave the disk before another pod is evicted. They do not run again. The pods of a
// folder stay, because only the container runtime knows that they are over.
func TestPodsThatAreOverFreeTheirDisk(t *testing.T) {
	for name, own := range map[string]bool{"API server": false, "folder": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world, err := fake.NewWorld(fake.WorldOptions{})
				require.NoError(t, err)
				world.Script(fake.Target{Container: "job"}, fake.Exit(5*time.Second, 0))
				disk := &layers{world: world}
				hard := pressure.Threshold{Signal: pressure.NodeFSAvailable, Below: pressure.Amount{Value: 100}}
				opts := nodetest.Options{World: world, Agent: evictingFor(t, disk, hard, 0)}
				job := nodetest.Pod("job", nodetest.Container("job"), nodetest.RestartPolicy(v1.RestartPolicyNever))
				web := nodetest.Pod("web", nodetest.Container("c"))
				var n *nodetest.Node
				if own {
					n = nodetest.New(t, opts)
					n.Apply(job, web)
				} else {
					opts.API = newServer(t)
					n = nodetest.New(t, opts)
					job = n.Bind(job)
					n.Bind(web)
				}
				time.Sleep(11 * time.Second)
				n.Settle()
				require.Equal(t, v1.PodSucceeded, n.Status("job").Phase)
				require.Equal(t, []string{"job", "web"}, disk.pods())
				disk.set(map[string]int64{"job": 850, "web": 100})
				time.Sleep(30 * time.Second)
				n.Settle()
				require.Equal(t, v1.PodRunning, n.Status("web").Phase)
				require.Empty(t, eventsOf(n, "Evicted"))
				left := []string{"web"}
				if own {
					left = []string{"job", "web"}
				}
				require.Equal(t, left, disk.pods())
				n.RestartAgent()
				time.Sleep(10 * time.Minute)
				require.Equal(t, v1.PodSucceeded, n.Status("job").Phase)
				require.Equal(t, 1, world.Count(fake.Target{UID: job.UID, Op: fake.OpStartContainer}))
			})
		})
	}
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
