// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// starts returns when the named container was started, since the node began.
func starts(n *nodetest.Node, name string) []time.Duration {
	var at []time.Duration
	for _, e := range n.World.Journal().Of(fake.Target{Op: fake.OpStartContainer, Container: name}) {
		at = append(at, e.At)
	}
	return at
}

// A pod that crashes every 30 s, for an hour.
func TestCrashLoopRestartsAtTheContractsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.World.Script(fake.Target{Container: "c"}, fake.Exit(30*time.Second, 1))
		host.Apply(nodetest.Pod("web", nodetest.Container("c")))
		time.Sleep(time.Hour)
		host.Settle()

		// Runs for 30 s; then waits 0, 10, 20, 40, 80, 160, 300, 300 … s.
		want := []time.Duration{0, 30, 70, 120, 190, 300, 490, 820, 1150, 1480, 1810, 2140, 2470, 2800, 3130, 3460}
		for i := range want {
			want[i] *= time.Second
		}
		require.Equal(t, want, starts(host, "c"))
		require.NoError(t, host.World.NoOverlap())

		status := host.Status("web")
		require.Equal(t, v1.PodRunning, status.Phase)
		require.EqualValues(t, 15, status.ContainerStatuses[0].RestartCount)
		waiting := status.ContainerStatuses[0].State.Waiting
		require.NotNil(t, waiting)
		require.Equal(t, "CrashLoopBackOff", waiting.Reason)
		require.Contains(t, waiting.Message, "next try at ")
		require.EqualValues(t, 1, status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode)
	})
}

// The same loop, with the agent replaced every minute: nothing is forgotten.
func TestCrashLoopGoesOnAcrossAgentRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.World.Script(fake.Target{Container: "c"}, fake.Exit(30*time.Second, 1))
		host.Apply(nodetest.Pod("web", nodetest.Container("c")))
		time.Sleep(5 * time.Second)
		for range 15 {
			time.Sleep(time.Minute)
			host.RestartAgent()
		}
		require.Equal(t, []time.Duration{0, 30e9, 70e9, 120e9, 190e9, 300e9, 490e9, 820e9}, starts(host, "c"))
		require.EqualValues(t, 7, host.Status("web").ContainerStatuses[0].RestartCount)
		require.NoError(t, host.World.NoOverlap())
	})
}

func TestTenMinutesOfHealthResetTheBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		quick, healthy := fake.Exit(time.Second, 1), fake.Exit(10*time.Minute+time.Second, 1)
		host.World.Script(fake.Target{Container: "c"}, quick, quick, quick, healthy, quick)
		host.Apply(nodetest.Pod("web", nodetest.Container("c")))
		time.Sleep(time.Hour)
		host.Settle()
		at := starts(host, "c")
		require.Equal(t, []time.Duration{0, 1e9, 12e9, 33e9, 634e9, 645e9}, at[:6], "at once after ten good minutes, then 10 s again")
	})
}

func TestPhasesFollowTheRestartPolicy(t *testing.T) {
	for _, tc := range []struct {
		policy v1.RestartPolicy
		code   int32
		phase  v1.PodPhase
		runs   int
	}{
		{v1.RestartPolicyNever, 0, v1.PodSucceeded, 1},
		{v1.RestartPolicyNever, 3, v1.PodFailed, 1},
		{v1.RestartPolicyOnFailure, 0, v1.PodSucceeded, 1},
		{v1.RestartPolicyOnFailure, 3, v1.PodRunning, 4},
		{v1.RestartPolicyAlways, 0, v1.PodRunning, 4},
	} {
		t.Run(string(tc.policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := nodetest.New(t, nodetest.Options{})
				host.World.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, tc.code))
				host.Apply(nodetest.Pod("p", nodetest.Container("c"), nodetest.RestartPolicy(tc.policy)))
				time.Sleep(time.Minute)
				host.Settle()
				require.Equal(t, tc.phase, host.Status("p").Phase)
				require.Len(t, starts(host, "c"), tc.runs)
				host.RestartAgent()
				time.Sleep(time.Second)
				host.Settle()
				require.Equal(t, tc.phase, host.Status("p").Phase, "a new agent sees the same")
				require.Len(t, starts(host, "c"), tc.runs, "and what is over stays over")
			})
		})
	}
}

func TestRemovedPodIsStoppedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 3 * time.Second})
		pod := nodetest.Pod("p", nodetest.Container("c"))
		host.Apply(pod)
		require.Equal(t, v1.PodRunning, host.Status("p").Phase)
		began := time.Now()
		host.Apply()
		time.Sleep(4 * time.Second)
		host.Settle()
		require.Empty(t, host.Agent.Pods())
		ended := host.Last(pod.UID).ContainerStatuses[0].State.Terminated.FinishedAt.Time
		require.Equal(t, 3*time.Second, ended.Sub(began), "no tick delays it")
		rt, err := fake.New(fake.Options{World: host.World})
		require.NoError(t, err)
		left, err := rt.List(t.Context(), runtime.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// A pod that is removed and comes back with the same UID while it ends is started again afterwards
// (kubernetes#104648).
func TestUpstream104648APodThatComesBackWhileItEndsIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 5 * time.Second})
		pod := nodetest.Pod("p", nodetest.Container("c"))
		host.Apply(pod)
		host.Apply()
		time.Sleep(time.Second)
		host.Apply(pod)
		time.Sleep(10 * time.Second)
		host.Settle()
		require.Equal(t, []time.Duration{0, 5 * time.Second}, starts(host, "c"))
		require.Equal(t, v1.PodRunning, host.Status("p").Phase)
		require.NoError(t, host.World.NoOverlap())
	})
}

// Unwanted containers of the runtime are stopped after every source has reported.
func TestOrphansOfAnEarlierAgentAreStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.Apply(nodetest.Pod("old", nodetest.Container("c")), nodetest.Pod("kept", nodetest.Container("k")))
		host.Shutdown()
		host.Apply(nodetest.Pod("kept", nodetest.Container("k")))
		host.RestartAgent()
		time.Sleep(5 * time.Second)
		host.Settle()
		require.Len(t, host.Agent.Pods(), 1)
		require.Equal(t, 1, host.World.Count(fake.Target{Op: fake.OpExited, Container: "c"}))
		require.Zero(t, host.World.Count(fake.Target{Op: fake.OpExited, Container: "k"}))
	})
}

// A removal that the runtime refuses for a moment is soon tried again, before the next
// housekeeping. containerd refuses the removal of a container whose start was interrupted by the
// death of an earlier agent.
func TestOrphansThatCannotBeRemovedAtOnceAreRemovedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.Apply(nodetest.Pod("old", nodetest.Container("c")))
		time.Sleep(time.Second)
		host.CrashAgent(1)
		host.Apply()
		_, err := host.World.Inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer}, For: 4 * time.Second, Err: errors.New("it is in starting state")})
		require.NoError(t, err)
		host.StartAgent()
		time.Sleep(10 * time.Second)
		host.Settle()
		require.Empty(t, host.World.Truth())
	})
}

func TestShutdownStopsEveryPodWithItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopPods := func(o *node.Options) { o.OnShutdown = node.StopPods }
		host := nodetest.New(t, nodetest.Options{Agent: stopPods})
		host.World.Script(fake.Target{Container: "slow"}, fake.Script{TermAfter: 20 * time.Second})
		host.World.Script(fake.Target{Container: "deaf"}, fake.Script{TermAfter: fake.Never})
		host.Apply(nodetest.Pod("a", nodetest.Container("slow")), nodetest.Pod("b", nodetest.Container("deaf")),
			nodetest.Pod("c", nodetest.Sidecar("s"), nodetest.Container("m")))
		began := time.Now()
		host.Shutdown()
		require.Equal(t, 30*time.Second, time.Since(began))
		require.Equal(t, 4, host.World.Count(fake.Target{Op: fake.OpExited}))
		require.NoError(t, host.World.Before(fake.Target{Op: fake.OpExited, Container: "m"}, fake.Target{Op: fake.OpExited, Container: "s"}))
	})
}

func TestRebootRunsInitAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.World.Script(fake.Target{Container: "i"}, fake.Exit(time.Second, 0))
		host.Apply(nodetest.Pod("p", nodetest.InitContainer("i"), nodetest.Sidecar("s"), nodetest.Container("c")))
		time.Sleep(10 * time.Second)
		host.Settle()
		require.Equal(t, v1.PodRunning, host.Status("p").Phase)
		host.Shutdown()
		host.World.Reboot()
		host.RestartAgent()
		require.Equal(t, v1.PodPending, host.Status("p").Phase, "kubernetes#126650: not Running before init is done again")
		time.Sleep(10 * time.Second)
		host.Settle()
		require.Equal(t, v1.PodRunning, host.Status("p").Phase)
		require.Len(t, starts(host, "i"), 2)
		require.Len(t, starts(host, "c"), 2)
	})
}

// After the loss of a sandbox init runs again. The status shows this under every policy, without
// complaints.
func TestALostSandboxIsNoIllegalTransition(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyOnFailure, v1.RestartPolicyAlways} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				warnings, logged := observer.New(zap.WarnLevel)
				server := newServer(t)
				host := nodetest.New(t, nodetest.Options{API: server, Agent: func(o *node.Options) { o.Logger = zap.New(warnings) }})
				host.World.Script(fake.Target{Container: "i"}, fake.Exit(5*time.Second, 0))
				pod := host.Bind(nodetest.Pod("p", nodetest.InitContainer("i"), nodetest.Container("c"), nodetest.RestartPolicy(policy)))
				time.Sleep(20 * time.Second)
				require.Equal(t, v1.PodRunning, server.Get(pod.UID).Status.Phase)
				host.World.Reboot()
				again := 0 // count of statuses on the API server
				for range 20 {
					time.Sleep(time.Second)
					if server.Get(pod.UID).Status.InitContainerStatuses[0].State.Terminated == nil {
						again++
					}
				}
				require.Len(t, starts(host, "i"), 2)
				require.Len(t, starts(host, "c"), 2)
				require.GreaterOrEqual(t, again, 4, "the API server sees init run again")
				require.Equal(t, v1.PodRunning, server.Get(pod.UID).Status.Phase)
				for _, line := range logged.All() {
					require.NotContains(t, line.Message, "corrected by the status manager", "%v", line.ContextMap())
				}
			})
		})
	}
}

func TestAPodThatCannotRunHereIsFailedWithAllReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		pod := nodetest.Pod("p", nodetest.Container("c"))
		pod.Spec.Volumes = []v1.Volume{
			{Name: "a", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}},
			{Name: "b", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		}
		host.Apply(pod, nodetest.Pod("fine", nodetest.Container("d")))
		status := host.Status("p")
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Contains(t, status.Message, "spec.volumes[0]")
		require.Contains(t, status.Message, "spec.volumes[1].emptyDir.medium")
		require.Empty(t, starts(host, "c"))
		require.Equal(t, v1.PodRunning, host.Status("fine").Phase)
	})
}
