// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func httpGet(path string, period, failures int32) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:     v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromInt32(80)}},
		PeriodSeconds:    period,
		TimeoutSeconds:   1,
		FailureThreshold: failures,
		SuccessThreshold: 1,
	}
}

func probed(p *v1.Pod) {
	c := &p.Spec.Containers[0]
	c.StartupProbe = httpGet("/started", 1, 30)
	c.ReadinessProbe = httpGet("/ready", 1, 1)
	c.LivenessProbe = httpGet("/alive", 1, 2)
	grace := int64(3)
	c.LivenessProbe.TerminationGracePeriodSeconds = &grace
}

// answers returns an Exec that fails the probes of one path.
func failing(path string, after time.Duration) func(context.Context, runtime.ContainerSpec, []string) fake.ExecResult {
	began := time.Now()
	return func(_ context.Context, _ runtime.ContainerSpec, cmd []string) fake.ExecResult {
		if slices.Contains(cmd, path) && time.Since(began) >= after {
			return fake.ExecResult{ExitCode: 1}
		}
		return fake.ExecResult{}
	}
}

func TestAContainerIsReadyOnceItsProbesSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		node.World.Script(fake.Target{Container: "c"}, fake.Script{ReadyAfter: 3500 * time.Millisecond})
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), probed))
		time.Sleep(3 * time.Second)
		node.Settle()
		c := node.Status("web").ContainerStatuses[0]
		require.NotNil(t, c.State.Running)
		require.False(t, *c.Started)
		require.False(t, c.Ready)
		require.Equal(t, v1.ConditionFalse, condition(node.Status("web"), v1.PodReady).Status)
		time.Sleep(2 * time.Second)
		node.Settle()
		c = node.Status("web").ContainerStatuses[0]
		require.True(t, *c.Started)
		require.True(t, c.Ready)
		require.Equal(t, v1.ConditionTrue, condition(node.Status("web"), v1.PodReady).Status)
	})
}

// Two failures kill the container, with the probe's grace period. Failures of the first instance do
// not count for the second.
func TestALivenessProbeRestartsItsContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		node.World.Script(fake.Target{Container: "c"},
			fake.Script{Exec: failing("/alive", 10*time.Second), TermAfter: fake.Never},
			fake.Script{})
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), probed))
		time.Sleep(time.Minute)
		node.Settle()
		require.Equal(t, []time.Duration{0, 14 * time.Second}, starts(node, "c"), "failures at 10 s and 11 s, and 3 s of grace")
		c := node.Status("web").ContainerStatuses[0]
		require.EqualValues(t, 1, c.RestartCount)
		require.True(t, c.Ready)
	})
}

func TestReadinessComesAndGoesWithoutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		node.World.Script(fake.Target{Container: "c"}, fake.Script{Exec: failing("/ready", 10*time.Second)})
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), probed))
		time.Sleep(9500 * time.Millisecond)
		node.Settle()
		require.True(t, node.Status("web").ContainerStatuses[0].Ready)
		time.Sleep(time.Second)
		node.Settle()
		require.False(t, node.Status("web").ContainerStatuses[0].Ready)
		require.Len(t, starts(node, "c"), 1)
	})
}

// A new agent neither restarts running containers nor resets their readiness.
func TestProbesGoOnWithANewAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), probed))
		time.Sleep(5 * time.Second)
		require.True(t, node.Status("web").ContainerStatuses[0].Ready)
		node.RestartAgent()
		time.Sleep(5 * time.Second)
		node.Settle()
		require.True(t, node.Status("web").ContainerStatuses[0].Ready)
		require.Len(t, starts(node, "c"), 1)
	})
}

// A probe that is taken out of a pod's spec is not made any more.
func TestAProbeThatIsTakenOutOfThePodIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI})
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), probed))
		time.Sleep(5 * time.Second)
		node.Apply(nodetest.Pod("web", nodetest.Container("c")))
		time.Sleep(5 * time.Second)
		before := node.World.Count(fake.Target{Op: fake.OpExec})
		time.Sleep(30 * time.Second)
		require.Equal(t, before, node.World.Count(fake.Target{Op: fake.OpExec}))
		require.NotZero(t, before)
	})
}
