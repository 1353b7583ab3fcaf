// SPDX-License-Identifier: Apache-2.0

package nodeagent_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

func count(n *nodetest.Node, on fake.Target) int { return len(n.World.Journal().Of(on)) }

func web(name string, edits ...func(*v1.Pod)) *v1.Pod {
	return nodetest.Pod(name, append([]func(*v1.Pod){nodetest.Container("c")}, edits...)...)
}

// The kubelet takes in nothing while its runtime is down. Here what changes
// meanwhile is known at once, and done when the runtime is back.
func TestConfigurationIsTakenInWhileTheRuntimeIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		node.Apply(web("goes"), web("stays"))
		time.Sleep(time.Second)
		down, err := node.World.Inject(fake.Fault{Err: errors.New("connection refused")})
		require.NoError(t, err)
		for i := range 10 {
			time.Sleep(time.Minute)
			node.Apply(web("stays"), web("comes"), web(fmt.Sprint("passes-by-", i)))
			var names []string
			for _, p := range node.Agent.Pods() {
				names = append(names, p.Name)
			}
			require.Contains(t, names, "comes")
			require.Contains(t, names, fmt.Sprint("passes-by-", i))
		}
		node.Apply(web("stays"), web("comes"))
		down.Clear()
		time.Sleep(6 * time.Second) // the back-off's longest pause, and a bit
		node.Settle()
		require.Equal(t, v1.PodRunning, node.Status("comes").Phase)
		time.Sleep(10 * time.Second) // and that of a pod's own, which nobody wants any more
		require.Equal(t, 1, count(node, fake.Target{Op: fake.OpStartContainer, Pod: "comes"}))
		require.Equal(t, 1, count(node, fake.Target{Op: fake.OpStartContainer, Pod: "stays"}))
		require.Equal(t, 2+1, count(node, fake.Target{Op: fake.OpStartContainer}), "of those that passed by none")
		require.Equal(t, 1, count(node, fake.Target{Op: fake.OpExited, Pod: "goes"}))
	})
}

// What is pending of one pod is done in its order, and what is undone is not done.
func TestWhatHappensAtOnceHappensInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		renamed := web("a")
		renamed.UID = "another"
		for _, pods := range [][]*v1.Pod{{web("a")}, {}, {web("a")}, {renamed}, {}, {web("b")}, {web("b"), web("a")}} {
			node.Apply(pods...)
		}
		time.Sleep(2 * time.Minute)
		node.Settle()
		require.Len(t, node.Agent.Pods(), 2)
		require.Equal(t, v1.PodRunning, node.Status("a").Phase)
		require.Equal(t, v1.PodRunning, node.Status("b").Phase)
		h := node.History()
		require.NoError(t, h.Overlaps)
	})
}

// The kubelet's channel of events has room for a thousand, and what does not fit
// waits for a resync.
func TestUpstream72709NoEventIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods, each = 26, 40
		node := nodetest.New(t, nodetest.Options{})
		node.World.Script(fake.Target{}, fake.Exit(time.Minute, 1), fake.Script{})
		var all []*v1.Pod
		for i := range pods {
			p := nodetest.Pod(fmt.Sprint("p", i))
			for j := range each {
				nodetest.Container(fmt.Sprint("c", j))(p)
			}
			all = append(all, p)
		}
		node.Apply(all...)
		require.Equal(t, pods*each, count(node, fake.Target{Op: fake.OpStartContainer}))
		time.Sleep(time.Minute + time.Millisecond)
		node.Settle()
		require.Equal(t, pods*each, count(node, fake.Target{Op: fake.OpExited}))
		require.Equal(t, 2*pods*each, count(node, fake.Target{Op: fake.OpStartContainer}), "all of them within the same instant")
	})
}

// The configuration goes before whatever else there is, and a pod that never rests
// holds up nobody.
func TestUpstream83883RestlessPodsDoNotDelayNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{Agent: func(o *nodeagent.Options) {
			o.Backoff.Initial, o.Backoff.Max = time.Millisecond, time.Millisecond
		}})
		var all []*v1.Pod
		for i := range 10 {
			all = append(all, web(fmt.Sprint("restless-", i)))
			node.World.Script(fake.Target{Pod: fmt.Sprint("restless-", i)}, fake.Exit(2*time.Millisecond, 1))
		}
		node.Apply(all...)
		time.Sleep(300 * time.Millisecond)
		require.Greater(t, count(node, fake.Target{Op: fake.OpExited}), 200, "they are restless")
		node.Apply(append(slices.Clone(all), web("new"))...)
		require.Equal(t, 1, count(node, fake.Target{Op: fake.OpStartContainer, Pod: "new"}))
	})
}

// There is no tick: a node on which nothing happens looks at each pod when its
// resync is due, every 60 to 90 s, and at the list of them once a minute.
func TestANodeOnWhichNothingHappensRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		node.Apply(web("a"), web("b"))
		time.Sleep(10 * time.Minute)
		before := len(node.World.Journal())
		time.Sleep(time.Hour)
		calls := len(node.World.Journal()) - before
		require.LessOrEqual(t, calls, 2*60+60+120+60, "resyncs, the tracker's lists, housekeeping's and the collector's")
	})
}

// A condition that somebody else sets on the API server makes the pod ready at
// once.
func TestAReadinessGateThatOpensIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		node := nodetest.New(t, nodetest.Options{API: server})
		pod := node.Bind(web("a", func(p *v1.Pod) { p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/open"}} }))
		time.Sleep(5 * time.Second)
		require.Equal(t, v1.ConditionFalse, ready(server.Get(pod.UID)))
		_, err := server.Change(pod.UID, func(p *v1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: "example.com/open", Status: v1.ConditionTrue})
		})
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, v1.ConditionTrue, ready(server.Get(pod.UID)))
	})
}

func newServer(t *testing.T) *statustest.Server {
	t.Helper()
	server, err := statustest.New(statustest.Options{})
	require.NoError(t, err)
	return server
}

func ready(pod *v1.Pod) v1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status
		}
	}
	return v1.ConditionUnknown
}

// A pod of an API server that was refused has failed for good, whatever becomes
// of the node and of its labels.
func TestARefusedPodIsNotAskedInAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: func(o *nodeagent.Options) {
			o.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("1")}
		}})
		node.Apply(web("a"))
		time.Sleep(time.Second)
		node.Apply(web("a"), web("b"))
		require.Equal(t, "OutOfpods", node.Status("b").Reason)
		node.Apply(web("b"))
		time.Sleep(time.Minute)
		node.Apply(web("b", func(p *v1.Pod) { p.Labels = map[string]string{"app": "b"} }))
		time.Sleep(time.Minute)
		require.Equal(t, "OutOfpods", node.Status("b").Reason)
		require.Zero(t, count(node, fake.Target{Op: fake.OpRunSandbox, Pod: "b"}))
	})
}

// Deleting a refused pod needs no container that ever ran.
func TestARefusedPodCanBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		node := nodetest.New(t, nodetest.Options{API: server, Agent: func(o *nodeagent.Options) {
			o.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("0")}
		}})
		pod := node.Bind(web("a"))
		time.Sleep(time.Second)
		require.Equal(t, "OutOfpods", server.Get(pod.UID).Status.Reason)
		_, err := server.Delete(pod.UID)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.Nil(t, server.Get(pod.UID))
	})
}
