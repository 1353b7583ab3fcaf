// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// silent adds a source that never says anything.
func silent(o *node.Options) {
	o.Sources = append(o.Sources, podconfig.SourceFunc("bus", func(ctx context.Context, _ podconfig.Sink) error {
		<-ctx.Done()
		return nil
	}))
}

func stopPods(o *node.Options) { o.OnShutdown = node.StopPods }

// A stop by the agent is not a crash.
func TestStoppedPodsStartAtOnceAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{Agent: stopPods})
		n.Apply(nodetest.Pod("web", nodetest.Container("c")))
		for range 4 {
			time.Sleep(time.Minute)
			n.RestartAgent()
			require.Equal(t, v1.PodRunning, n.Status("web").Phase)
		}
		require.Equal(t, []time.Duration{0, 60e9, 120e9, 180e9, 240e9}, starts(n, "c"))
	})
}

func TestAPodRemovedAndAddedAgainOwesNoDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		n.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: time.Second})
		pod := nodetest.Pod("web", nodetest.Container("c"))
		for range 4 {
			n.Apply(pod)
			time.Sleep(300 * time.Millisecond)
			n.Apply()
			time.Sleep(300 * time.Millisecond)
		}
		n.Apply(pod)
		time.Sleep(2 * time.Second)
		n.Settle()
		require.Equal(t, v1.PodRunning, n.Status("web").Phase)
		require.NotNil(t, n.Status("web").ContainerStatuses[0].State.Running)
	})
}

// After an edit of a manifest while no agent runs, the old pod ends with its own grace period, and
// the new pod waits for its end.
func TestEditWhileTheAgentIsDown(t *testing.T) {
	for name, change := range map[string]func(*node.Options){"": func(*node.Options) {}, "a silent source": silent} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := nodetest.New(t, nodetest.Options{Agent: change})
				n.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 20 * time.Second})
				pod := nodetest.Pod("web", nodetest.Container("c"))
				n.Apply(pod)
				time.Sleep(time.Second)
				n.Shutdown()
				edited := pod.DeepCopy()
				edited.UID = "uid-web-2"
				n.Apply(edited)
				n.RestartAgent()
				time.Sleep(time.Minute)
				n.Settle()
				exits := n.World.Journal().Of(fake.Target{Op: fake.OpExited, UID: pod.UID})
				require.Len(t, exits, 1)
				require.Equal(t, 21*time.Second, exits[0].At, "it was given its time")
				began := starts(n, "c")
				require.Len(t, began, 2)
				require.GreaterOrEqual(t, began[1], exits[0].At, "never two of one name")
				require.Less(t, began[1], exits[0].At+200*time.Millisecond)
				require.Equal(t, v1.PodRunning, n.Status("web").Phase)
			})
		})
	}
}

// A silent source does not delay other sources (kubernetes#15195).
func TestUpstream15195ASilentSourceHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{Agent: silent})
		pod := nodetest.Pod("web", nodetest.Container("c"))
		n.Apply(pod)
		time.Sleep(time.Minute)
		n.Apply()
		time.Sleep(time.Minute)
		n.Settle()
		require.Empty(t, n.Agent.Pods(), "what its source removed is gone")
		n.Apply(pod)
		time.Sleep(time.Second)
		n.Settle()
		require.Equal(t, []time.Duration{0, 120e9}, starts(n, "c"), "and what comes back starts")
	})
}

func TestShutdownKillsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) { silent(o); stopPods(o) }})
		n.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 20 * time.Second})
		n.Apply(nodetest.Pod("web", nodetest.Container("c")))
		time.Sleep(time.Second)
		n.Apply()
		time.Sleep(5 * time.Second)
		n.Shutdown()
		require.Equal(t, 1, n.World.Count(fake.Target{Op: fake.OpStopContainer}))
	})
}

// A container that cannot be created does not delay the restart of another.
func TestASiblingsFailureDelaysNoRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		n.World.Script(fake.Target{Container: "a"}, fake.Exit(30*time.Second, 1))
		_, err := n.World.Inject(fake.Fault{On: fake.Target{Op: fake.OpCreateContainer, Container: "b"}, Err: context.DeadlineExceeded})
		require.NoError(t, err)
		n.Apply(nodetest.Pod("web", nodetest.Container("a"), nodetest.Container("b")))
		time.Sleep(10 * time.Minute)
		n.Settle()
		require.Equal(t, []time.Duration{0, 30e9, 70e9, 120e9, 190e9, 300e9, 490e9}, starts(n, "a"))
		require.NotEmpty(t, n.Status("web").ContainerStatuses[1].State.Waiting.Message)
	})
}

// A running pod that a stricter agent refuses does not run on behind a status with the phase
// Failed.
func TestARejectedPodDoesNotRunOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		pod := nodetest.Pod("web", nodetest.Container("c"))
		n.Apply(pod)
		n.Shutdown()
		refused := pod.DeepCopy()
		refused.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}}}
		n.Apply(refused)
		n.RestartAgent()
		time.Sleep(time.Minute)
		n.Settle()
		require.Equal(t, v1.PodFailed, n.Status("web").Phase)
		require.Equal(t, 1, n.World.Count(fake.Target{Op: fake.OpExited, Container: "c"}))
	})
}

func TestARunningPodThatBecomesUnacceptableIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		pod := nodetest.Pod("web", nodetest.Container("c"))
		n.Apply(pod)
		refused := pod.DeepCopy()
		refused.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}}}
		n.Apply(refused)
		time.Sleep(time.Minute)
		n.Settle()
		require.Equal(t, 1, n.World.Count(fake.Target{Op: fake.OpExited, Container: "c"}))
		require.Equal(t, v1.PodFailed, n.Status("web").Phase)
		require.Equal(t, "UnsupportedPodSpec", n.Status("web").Reason)
		n.Apply(pod)
		time.Sleep(time.Minute)
		n.Settle()
		require.Len(t, starts(n, "c"), 2, "and started again when it is acceptable again")
	})
}

// A manifest with an explicit UID is restarted after a change of its content, with its grace period
// (kubernetes#136931: it is not).
func TestUpstream136931AnEditUnderTheSameUIDRestartsThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		n.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 3 * time.Second})
		pod := nodetest.Pod("web", nodetest.Container("c"))
		pod.Annotations = map[string]string{podconfig.AnnotationHash: "1"}
		n.Apply(pod)
		edited := pod.DeepCopy()
		edited.Annotations[podconfig.AnnotationHash] = "2"
		edited.Spec.Containers[0].Command = []string{"/other"}
		n.Apply(edited)
		time.Sleep(10 * time.Second)
		n.Settle()
		require.Equal(t, []time.Duration{0, 3e9}, starts(n, "c"))
		require.NoError(t, n.World.NoOverlap())
		require.Equal(t, []string{"/other"}, n.Agent.Pods()[0].Spec.Containers[0].Command, "/pods shows the new spec")
	})
}

// During a slow hook of a container the other containers restart on time, and the status is true
// (kubernetes#37805).
func TestUpstream37805SiblingsGoOnWhileAHookRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		n.World.Script(fake.Target{Container: "b"}, fake.Exit(time.Second, 1))
		pod := nodetest.Pod("web", nodetest.Container("a"), nodetest.Container("b"))
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 300}}}
		n.Apply(pod)
		time.Sleep(100 * time.Millisecond)
		n.Settle()
		require.NotNil(t, n.Status("web").ContainerStatuses[0].State.Running, "a runs, and it shows")
		require.NotNil(t, n.Status("web").ContainerStatuses[1].State.Running)
		time.Sleep(2 * time.Minute)
		n.Settle()
		require.Equal(t, []time.Duration{0, 1e9, 12e9, 33e9, 74e9}, starts(n, "b"))
		waiting := n.Status("web").ContainerStatuses[1].State.Waiting
		require.NotNil(t, waiting)
		require.Equal(t, "CrashLoopBackOff", waiting.Reason)
		time.Sleep(10 * time.Minute)
		n.Settle()
		require.Len(t, starts(n, "a"), 1)
		require.NoError(t, n.World.NoOverlap())
	})
}

// A container that ignores the stop signal does not delay the others.
func TestSiblingsGoOnWhileAContainerIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		n.World.Script(fake.Target{Container: "a"}, fake.Script{TermAfter: fake.Never})
		n.World.Script(fake.Target{Container: "b"}, fake.Script{}, fake.Exit(time.Hour, 0))
		pod := nodetest.Pod("web", nodetest.Container("a"), nodetest.Container("b"), nodetest.GracePeriod(600))
		n.Apply(pod)
		time.Sleep(time.Second)
		edited := pod.DeepCopy()
		edited.Spec.Containers[0].Image = "localhost/a:2"
		n.Apply(edited)
		time.Sleep(time.Second)
		require.NoError(t, n.World.Kill(pod.UID, "b", 1))
		time.Sleep(time.Second)
		n.Settle()
		require.Len(t, starts(n, "b"), 2)
		require.Len(t, starts(n, "a"), 1, "it has its grace period")
		time.Sleep(10 * time.Minute)
		n.Settle()
		require.Len(t, starts(n, "a"), 2)
		require.NoError(t, n.World.NoOverlap())
	})
}
