// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/shutdown"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// within ends the agent like a kubelet with a shutdownGracePeriod of 30 s, including 10 s for
// critical pods.
func within(t *testing.T) func(o *node.Options) {
	classes, err := shutdown.GracePeriods(30*time.Second, 10*time.Second)
	require.NoError(t, err)
	return func(o *node.Options) {
		o.OnShutdown, o.ShutdownClasses = node.StopPods, classes
	}
}

func critical(p *v1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }

// exits returns when the named container ended, since the node began.
func exits(n *nodetest.Node, name string) []time.Duration {
	var at []time.Duration
	for _, e := range n.World.Journal().Of(fake.Target{Op: fake.OpExited, Container: name}) {
		at = append(at, e.At)
	}
	return at
}

func TestShutdownInOrderEndsCriticalPodsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{Agent: within(t)})
		host.World.Script(fake.Target{Container: "quick"}, fake.Script{TermAfter: 2 * time.Second})
		host.World.Script(fake.Target{Container: "slow"}, fake.Script{TermAfter: 8 * time.Second})
		host.World.Script(fake.Target{Container: "dns"}, fake.Script{TermAfter: 3 * time.Second})
		a, b := nodetest.Pod("a", nodetest.Container("quick")), nodetest.Pod("b", nodetest.Container("slow"))
		c := nodetest.Pod("c", nodetest.Container("dns"), critical)
		host.Apply(c, a, b)
		began := time.Now()
		host.Shutdown()
		require.Equal(t, 11*time.Second, time.Since(began), "nobody waits for time that is not needed")
		require.Equal(t, []time.Duration{2 * time.Second}, exits(host, "quick"))
		require.Equal(t, []time.Duration{8 * time.Second}, exits(host, "slow"))
		require.Equal(t, []time.Duration{11 * time.Second}, exits(host, "dns"), "its signal came after the others had ended")
		for _, pod := range []*v1.Pod{a, b, c} {
			status := host.Last(pod.UID)
			require.Equal(t, v1.PodFailed, status.Phase)
			require.Equal(t, "Terminated", status.Reason)
			require.Equal(t, "Pod was terminated in response to imminent node shutdown.", status.Message)
			disrupted := 0
			for _, condition := range status.Conditions {
				if condition.Type == v1.DisruptionTarget {
					disrupted++
					require.Equal(t, v1.ConditionTrue, condition.Status)
					require.Equal(t, "TerminationByKubelet", condition.Reason)
				}
			}
			require.Equal(t, 1, disrupted)
		}
	})
}

// A pod that ignores the stop signal is killed within the time of its class, and the next class has
// its full time.
func TestShutdownInOrderKillsTheDeafInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{Agent: within(t)})
		host.World.Script(fake.Target{Container: "deaf"}, fake.Script{TermAfter: fake.Never})
		host.Apply(nodetest.Pod("a", nodetest.Container("deaf"), nodetest.GracePeriod(3600)),
			nodetest.Pod("c", nodetest.Container("dns"), critical))
		began := time.Now()
		host.Shutdown()
		require.Equal(t, []time.Duration{19 * time.Second}, exits(host, "deaf"))
		require.Len(t, exits(host, "dns"), 1)
		require.Less(t, time.Since(began), 20*time.Second)
	})
}

// A container that cannot be stopped does not delay the end of the agent.
func TestShutdownInOrderIsOverInTimeWhateverStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{Agent: within(t)})
		a, c := nodetest.Pod("a", nodetest.Container("stuck")), nodetest.Pod("c", nodetest.Container("dns"), critical)
		host.Apply(a, c)
		_, err := host.World.Inject(fake.Fault{On: fake.Target{Op: fake.OpStopContainer, Container: "stuck"}, HangUntilCtx: true})
		require.NoError(t, err)
		began := time.Now()
		host.Shutdown()
		took := time.Since(began)
		require.GreaterOrEqual(t, took, 20*time.Second)
		require.LessOrEqual(t, took, 32*time.Second, "and a second or so for last words")
		require.Empty(t, exits(host, "stuck"))
		require.Len(t, exits(host, "dns"), 1, "its turn comes all the same")
		require.Equal(t, v1.PodFailed, host.Last(a.UID).Phase)
	})
}

// Ending pods and orphans do not outlast the agent, and a completed pod stays Succeeded.
func TestShutdownInOrderOfWhatNobodyWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world, err := fake.NewWorld(fake.WorldOptions{})
		require.NoError(t, err)
		host := nodetest.New(t, nodetest.Options{World: world, Agent: within(t)})
		host.World.Script(fake.Target{Container: "deaf"}, fake.Script{TermAfter: fake.Never})
		host.World.Script(fake.Target{Container: "job"}, fake.Exit(time.Second, 0))
		job := nodetest.Pod("job", nodetest.Container("job"), nodetest.RestartPolicy(v1.RestartPolicyNever))
		host.Apply(job, nodetest.Pod("a", nodetest.Container("deaf"), nodetest.GracePeriod(3600)))
		time.Sleep(10 * time.Second)
		host.Apply(job) // a has an hour to end
		time.Sleep(10 * time.Second)
		began := time.Now()
		host.Shutdown()
		require.Less(t, time.Since(began), 20*time.Second)
		require.Len(t, exits(host, "deaf"), 1)
		require.Equal(t, v1.PodSucceeded, host.Last(job.UID).Phase)
		require.Empty(t, host.Last(job.UID).Reason)
	})
}

func TestShutdownClassesAreForStopPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := node.Options{}
		nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) { opts = *o }})
		opts.ShutdownClasses = []shutdown.Class{{Grace: time.Minute}}
		_, err := node.New(opts)
		require.ErrorContains(t, err, "Options.ShutdownClasses")
		opts.OnShutdown = node.StopPods
		opts.ShutdownClasses = []shutdown.Class{{}}
		_, err = node.New(opts)
		require.ErrorContains(t, err, "Options.ShutdownClasses")
	})
}

func TestStopTimeoutBoundsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zap.InfoLevel)
		host := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			o.OnShutdown, o.StopTimeout = node.StopPods, 20*time.Second
			o.Logger = zap.New(core)
		}})
		host.World.Script(fake.Target{Container: "deaf"}, fake.Script{TermAfter: fake.Never})
		host.Apply(nodetest.Pod("a", nodetest.Container("quick")), nodetest.Pod("b", nodetest.Container("deaf"), nodetest.GracePeriod(600)))
		began := time.Now()
		host.Shutdown()
		require.Less(t, time.Since(began), time.Minute)
		require.Len(t, exits(host, "quick"), 1)
		require.Empty(t, exits(host, "deaf"), "it has its grace period, and nobody waits for it")
		require.Len(t, log.FilterMessage("the time for stopping the pods is over; pods that still run are left running").All(), 1)
		require.Empty(t, log.FilterMessage("all pods are stopped").All())
	})
}
