// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/examples/simulation/cluster"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// onBothSources runs a test with the reflector of client-go and without.
func onBothSources(t *testing.T, o cluster.Options, test func(t *testing.T, o cluster.Options)) {
	t.Helper()
	for _, plain := range []bool{false, true} {
		o.Plain = plain
		t.Run(fmt.Sprintf("plain=%t", plain), func(t *testing.T) { test(t, o) })
	}
}

// start runs a cluster of n nodes in a bubble until the end of f.
func start(t *testing.T, n int, o cluster.Options, f func(*cluster.Cluster)) {
	t.Helper()
	o.Root = t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for i := range n {
			node := &v1.Node{}
			node.Name = fmt.Sprintf("node-%d", i)
			o.Nodes = append(o.Nodes, node)
		}
		c, err := cluster.New(o)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		f(c)
		cancel()
		require.NoError(t, <-done)
	})
}

// bind creates a pod with a container on a node.
func bind(c *cluster.Cluster, name, node, image string) types.UID {
	pod := nodetest.Pod(name, nodetest.Container("c"))
	pod.UID, pod.Spec.NodeName, pod.Spec.Containers[0].Image = types.UID("uid-"+name), node, image
	return c.Server().Create(pod).UID
}

func phase(c *cluster.Cluster, uid types.UID) v1.PodPhase {
	if pod := c.Server().Get(uid); pod != nil {
		return pod.Status.Phase
	}
	return "gone"
}

func started(c *cluster.Cluster, node string) int {
	return c.Node(node).World.Total(fake.OpStartContainer)
}

// TestEachNodeRunsItsOwnPods: pods become Running on their nodes after the lag, and go after a
// deletion and their grace period.
func TestEachNodeRunsItsOwnPods(t *testing.T) {
	behave := func(*v1.Pod, runtime.ContainerSpec) fake.Script { return fake.Script{TermAfter: 2 * time.Second} }
	onBothSources(t, cluster.Options{Lag: time.Second, Behave: behave}, func(t *testing.T, o cluster.Options) {
		start(t, 20, o, func(c *cluster.Cluster) {
			var uids []types.UID
			for i, n := range c.Nodes() {
				uids = append(uids, bind(c, fmt.Sprintf("pod-%d", i), n.Name, "image"))
			}
			time.Sleep(time.Second)
			synctest.Wait()
			for i, n := range c.Nodes() {
				assert.Equal(t, v1.PodRunning, phase(c, uids[i]))
				assert.Equal(t, 1, started(c, n.Name))
			}
			_, err := c.Server().Delete(uids[3])
			require.NoError(t, err)
			time.Sleep(2999 * time.Millisecond)
			assert.Equal(t, v1.PodRunning, phase(c, uids[3]))
			time.Sleep(time.Millisecond)
			synctest.Wait()
			assert.EqualValues(t, "gone", phase(c, uids[3]), "a second of lag, two seconds of the container")
		})
	})
}

// TestPullsTakeTime: the first pod of an image waits for the pull, which other pods share; later pods
// and images without a size start at once.
func TestPullsTakeTime(t *testing.T) {
	o := cluster.Options{ImageSizes: map[string]int64{"big:latest": 1 << 30, "here:latest": 1 << 30}, Bandwidth: 100 << 20}
	node := &v1.Node{}
	node.Name, node.Status.Images = "warm", []v1.ContainerImage{{Names: []string{"here", "not a reference!"}}}
	o.Nodes = append(o.Nodes, node)
	start(t, 1, o, func(c *cluster.Cluster) {
		first := bind(c, "first", "node-0", "big")
		small := bind(c, "small", "node-0", "small")
		warm := bind(c, "warm", "warm", "here")
		time.Sleep(5 * time.Second)
		shared := bind(c, "shared", "node-0", "big")
		time.Sleep(5239 * time.Millisecond)
		assert.Equal(t, []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodPending, v1.PodRunning},
			[]v1.PodPhase{phase(c, first), phase(c, small), phase(c, shared), phase(c, warm)})
		time.Sleep(time.Millisecond) // 10.24 s
		synctest.Wait()
		cached := bind(c, "cached", "node-0", "big")
		synctest.Wait()
		assert.Equal(t, []v1.PodPhase{v1.PodRunning, v1.PodRunning, v1.PodRunning},
			[]v1.PodPhase{phase(c, first), phase(c, shared), phase(c, cached)})
	})
}

// TestLostNode: the containers of a lost node end, its pods stay as they were on the API server, and
// they start again when the node returns.
func TestLostNode(t *testing.T) {
	onBothSources(t, cluster.Options{}, func(t *testing.T, o cluster.Options) {
		start(t, 2, o, func(c *cluster.Cluster) {
			stays, goes := bind(c, "stays", "node-0", "image"), bind(c, "goes", "node-0", "image")
			other := bind(c, "other", "node-1", "image")
			time.Sleep(time.Minute)
			lost := c.Node("node-0")
			lost.Lose()
			lost.Lose()
			c.Server().Remove(goes)
			late := bind(c, "late", "node-0", "image")
			time.Sleep(time.Hour)
			assert.Equal(t, []v1.PodPhase{v1.PodRunning, "", v1.PodRunning}, []v1.PodPhase{phase(c, stays), phase(c, late), phase(c, other)})
			assert.Equal(t, 2, started(c, "node-0"))
			for _, pod := range lost.World.Truth() {
				for _, container := range pod.Containers {
					assert.Equal(t, runtime.StateExited, container.State)
				}
			}
			lost.Return()
			time.Sleep(time.Minute)
			assert.Equal(t, v1.PodRunning, phase(c, late))
			status := c.Server().Get(stays).Status
			assert.Equal(t, v1.PodRunning, status.Phase)
			assert.EqualValues(t, 1, status.ContainerStatuses[0].RestartCount)
			assert.Equal(t, 4, started(c, "node-0"))
			assert.Equal(t, 1, started(c, "node-1"))
			lost.Lose()
			lost.Return() // before the end of the agent
			time.Sleep(time.Minute)
			assert.Equal(t, 6, started(c, "node-0"))
		})
	})
}

// TestTroubleOfTheServer: pods arrive, and statuses too, in spite of watches that end, history that is
// gone, conflicts and a cut connection.
func TestTroubleOfTheServer(t *testing.T) {
	onBothSources(t, cluster.Options{Lag: 300 * time.Millisecond}, func(t *testing.T, o cluster.Options) {
		start(t, 5, o, func(c *cluster.Cluster) {
			server := c.Server()
			_, err := server.Inject(statustest.Fault{Request: statusmanager.RequestPatch, Times: 20,
				Err: apierrors.NewConflict(v1.Resource("pods"), "any", fmt.Errorf("the object has been modified"))})
			require.NoError(t, err)
			var uids []types.UID
			for i := range 50 {
				uids = append(uids, bind(c, fmt.Sprintf("pod-%d", i), fmt.Sprintf("node-%d", i%5), "image"))
				n := c.Nodes()[i%5]
				switch i % 4 {
				case 0:
					n.Client.EndWatches()
				case 1:
					server.Compact()
					n.Client.EndWatches()
				case 2:
					server.Bookmark()
				case 3:
					n.Client.Cut(apierrors.NewServiceUnavailable("maintenance"))
					time.AfterFunc(time.Minute, n.Client.Mend)
				}
				time.Sleep(time.Second)
			}
			time.Sleep(2 * time.Minute)
			for _, uid := range uids[:10] {
				server.Remove(uid)
			}
			time.Sleep(10 * time.Minute)
			for i, uid := range uids {
				want := v1.PodRunning
				if i < 10 {
					want = "gone"
				}
				assert.Equal(t, want, phase(c, uid), uid)
			}
			for _, n := range c.Nodes() {
				assert.Equal(t, 10, n.World.Total(fake.OpStartContainer))
				assert.Equal(t, 2, n.World.Total(fake.OpStopContainer))
				assert.NoError(t, n.World.NoOverlap())
			}
		})
	})
}

// TestIdlePodsRest: pods that run are not read again, only listed as a safety net, and a container that
// ends is restarted at once.
func TestIdlePodsRest(t *testing.T) {
	start(t, 1, cluster.Options{}, func(c *cluster.Cluster) {
		var uids []types.UID
		for i := range 5 {
			uids = append(uids, bind(c, fmt.Sprintf("pod-%d", i), "node-0", "image"))
		}
		time.Sleep(5 * time.Minute)
		world := c.Node("node-0").World
		reads, lists, patches := world.Total(fake.OpPodStatus), world.Total(fake.OpList), c.Server().Total(statusmanager.RequestPatch)
		time.Sleep(50 * time.Minute)
		assert.Equal(t, reads, world.Total(fake.OpPodStatus))
		assert.Equal(t, patches, c.Server().Total(statusmanager.RequestPatch))
		assert.LessOrEqual(t, world.Total(fake.OpList)-lists, 70, "one in a minute, and a few for garbage")
		require.NoError(t, world.Kill(uids[2], "c", 1))
		synctest.Wait()
		assert.EqualValues(t, 1, c.Server().Get(uids[2]).Status.ContainerStatuses[0].RestartCount)
	})
}

func TestOptionsAreChecked(t *testing.T) {
	named := func(names ...string) (nodes []*v1.Node) {
		for _, name := range names {
			node := &v1.Node{}
			node.Name = name
			nodes = append(nodes, node)
		}
		return nodes
	}
	for want, o := range map[string]cluster.Options{
		"Options.Nodes: none":                {Root: "/r"},
		`Options.Root "": want an absolute`:  {Nodes: named("a")},
		"Options.Nodes[1]: nil, or the name": {Root: "/r", Nodes: named("a", "a")},
		"Options.Plain have no effect with Op": {Root: "/r", Nodes: named("a"), Plain: true,
			Connect: func(string) (podconfig.Source, statusmanager.Patcher) { return nil, nil }},
		"Options.Lag and Options.Bandwidth: n": {Root: "/r", Nodes: named("a"), Lag: -1},
	} {
		_, err := cluster.New(o)
		assert.ErrorContains(t, err, want)
	}
	c, err := cluster.New(cluster.Options{Root: t.TempDir(), Nodes: named("Not-A-Name")})
	require.NoError(t, err)
	require.ErrorContains(t, c.Run(t.Context()), "Not-A-Name")
}
