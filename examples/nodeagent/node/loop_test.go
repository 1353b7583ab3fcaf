// SPDX-License-Identifier: Apache-2.0

package node_test

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
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

func count(n *nodetest.Node, on fake.Target) int { return len(n.World.Journal().Of(on)) }

func web(name string, edits ...func(*v1.Pod)) *v1.Pod {
	return nodetest.Pod(name, append([]func(*v1.Pod){nodetest.Container("c")}, edits...)...)
}

// The kubelet accepts no pods while its runtime is down. This agent accepts changes at once, and
// carries them out when the runtime is back.
func TestConfigurationIsTakenInWhileTheRuntimeIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.Apply(web("goes"), web("stays"))
		time.Sleep(time.Second)
		down, err := host.World.Inject(fake.Fault{Err: errors.New("connection refused")})
		require.NoError(t, err)
		for i := range 10 {
			time.Sleep(time.Minute)
			host.Apply(web("stays"), web("comes"), web(fmt.Sprint("passes-by-", i)))
			var names []string
			for _, p := range host.Agent.Pods() {
				names = append(names, p.Name)
			}
			require.Contains(t, names, "comes")
			require.Contains(t, names, fmt.Sprint("passes-by-", i))
		}
		host.Apply(web("stays"), web("comes"))
		down.Clear()
		time.Sleep(6 * time.Second) // the back-off's longest pause, and a bit
		host.Settle()
		require.Equal(t, v1.PodRunning, host.Status("comes").Phase)
		time.Sleep(10 * time.Second) // and that of a pod's own, which nobody wants any more
		require.Equal(t, 1, count(host, fake.Target{Op: fake.OpStartContainer, Pod: "comes"}))
		require.Equal(t, 1, count(host, fake.Target{Op: fake.OpStartContainer, Pod: "stays"}))
		require.Equal(t, 2+1, count(host, fake.Target{Op: fake.OpStartContainer}), "of those that passed by none")
		require.Equal(t, 1, count(host, fake.Target{Op: fake.OpExited, Pod: "goes"}))
	})
}

// Pending changes of a pod are handled in order, and a change that is undone has no effect.
func TestWhatHappensAtOnceHappensInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		renamed := web("a")
		renamed.UID = "another"
		for _, pods := range [][]*v1.Pod{{web("a")}, {}, {web("a")}, {renamed}, {}, {web("b")}, {web("b"), web("a")}} {
			host.Apply(pods...)
		}
		time.Sleep(2 * time.Minute)
		host.Settle()
		require.Len(t, host.Agent.Pods(), 2)
		require.Equal(t, v1.PodRunning, host.Status("a").Phase)
		require.Equal(t, v1.PodRunning, host.Status("b").Phase)
		h := host.History()
		require.NoError(t, h.Overlaps)
	})
}

// The kubelet's channel has room for a thousand events. Further events are delayed until a resync.
func TestUpstream72709NoEventIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods, each = 26, 40
		host := nodetest.New(t, nodetest.Options{})
		host.World.Script(fake.Target{}, fake.Exit(time.Minute, 1), fake.Script{})
		var all []*v1.Pod
		for i := range pods {
			p := nodetest.Pod(fmt.Sprint("p", i))
			for j := range each {
				nodetest.Container(fmt.Sprint("c", j))(p)
			}
			all = append(all, p)
		}
		host.Apply(all...)
		require.Equal(t, pods*each, count(host, fake.Target{Op: fake.OpStartContainer}))
		time.Sleep(time.Minute + time.Millisecond)
		host.Settle()
		require.Equal(t, pods*each, count(host, fake.Target{Op: fake.OpExited}))
		require.Equal(t, 2*pods*each, count(host, fake.Target{Op: fake.OpStartContainer}), "all of them within the same instant")
	})
}

// Configuration is handled before other work, and a pod that changes permanently delays no other
// pod.
func TestUpstream83883RestlessPodsDoNotDelayNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			o.Backoff.Initial, o.Backoff.Max = time.Millisecond, time.Millisecond
		}})
		var all []*v1.Pod
		for i := range 10 {
			all = append(all, web(fmt.Sprint("restless-", i)))
			host.World.Script(fake.Target{Pod: fmt.Sprint("restless-", i)}, fake.Exit(2*time.Millisecond, 1))
		}
		host.Apply(all...)
		time.Sleep(300 * time.Millisecond)
		require.Greater(t, count(host, fake.Target{Op: fake.OpExited}), 200, "they are restless")
		host.Apply(append(slices.Clone(all), web("new"))...)
		require.Equal(t, 1, count(host, fake.Target{Op: fake.OpStartContainer, Pod: "new"}))
	})
}

// There is no tick. An idle node reads each pod at its resync, every 60 to 90 s, and lists pods
// once a minute.
func TestANodeOnWhichNothingHappensRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.Apply(web("a"), web("b"))
		time.Sleep(10 * time.Minute)
		before := len(host.World.Journal())
		time.Sleep(time.Hour)
		calls := len(host.World.Journal()) - before
		require.LessOrEqual(t, calls, 2*60+60+120+60, "resyncs, the tracker's lists, housekeeping's and the collector's")
	})
}

// A condition set by another client on the API server makes the pod ready at once.
func TestAReadinessGateThatOpensIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		host := nodetest.New(t, nodetest.Options{API: server})
		pod := host.Bind(web("a", func(p *v1.Pod) { p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/open"}} }))
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

// A refused pod of an API server stays Failed after changes of the node or its labels.
func TestARefusedPodIsNotAskedInAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, Agent: func(o *node.Options) {
			o.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("1")}
		}})
		host.Apply(web("a"))
		time.Sleep(time.Second)
		host.Apply(web("a"), web("b"))
		require.Equal(t, "OutOfpods", host.Status("b").Reason)
		host.Apply(web("b"))
		time.Sleep(time.Minute)
		host.Apply(web("b", func(p *v1.Pod) { p.Labels = map[string]string{"app": "b"} }))
		time.Sleep(time.Minute)
		require.Equal(t, "OutOfpods", host.Status("b").Reason)
		require.Zero(t, count(host, fake.Target{Op: fake.OpRunSandbox, Pod: "b"}))
	})
}

// A refused pod can be deleted although no container of the pod ever ran.
func TestARefusedPodCanBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		host := nodetest.New(t, nodetest.Options{API: server, Agent: func(o *node.Options) {
			o.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("0")}
		}})
		pod := host.Bind(web("a"))
		time.Sleep(time.Second)
		require.Equal(t, "OutOfpods", server.Get(pod.UID).Status.Reason)
		_, err := server.Delete(pod.UID)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.Nil(t, server.Get(pod.UID))
	})
}

// rejections records the events FailedValidation.
type rejections struct{ said []string }

// Event implements runtime.EventRecorder.
func (r *rejections) Event(object apiruntime.Object, eventType, reason, message string) {
	if reason == "FailedValidation" {
		r.said = append(r.said, object.(*v1.ObjectReference).Name+" "+eventType+": "+message)
	}
}

// A pod that its source may not deliver is reported as by the kubelet.
func TestARejectedPodHasAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events rejections
		host := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) { o.Events = &events }})
		host.Apply(web("a"), web("a", func(p *v1.Pod) { p.UID = "another" }))
		require.Len(t, events.said, 1)
		require.Contains(t, events.said[0], `a Warning: Ignoring the pod from source "file": podconfig: duplicate pod name: a_default of UID another came after`)
	})
}
