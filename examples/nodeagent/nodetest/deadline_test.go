// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func deadline(seconds int64) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = &seconds }
}

// ends is when the named container exited, since the node began.
func ends(n *nodetest.Node, name string) []time.Duration {
	var at []time.Duration
	for _, e := range n.World.Journal().Of(fake.Target{Op: fake.OpExited, Container: name}) {
		at = append(at, e.At)
	}
	return at
}

func requireOverdue(t *testing.T, status v1.PodStatus) {
	t.Helper()
	require.Equal(t, v1.PodFailed, status.Phase)
	require.Equal(t, "DeadlineExceeded", status.Reason)
	require.Equal(t, "Pod was active on the node longer than the specified deadline", status.Message)
}

func TestAPodEndsAtItsDeadline(t *testing.T) {
	for _, source := range []string{podconfig.SourceFile, podconfig.SourceAPI} {
		t.Run(source, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := nodetest.New(t, nodetest.Options{Source: source})
				node.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 5 * time.Second})
				node.Apply(nodetest.Pod("job", nodetest.Container("c"), deadline(90)), nodetest.Pod("web", nodetest.Container("d")))
				time.Sleep(time.Hour)
				requireOverdue(t, node.Status("job"))
				require.Equal(t, []time.Duration{95 * time.Second}, ends(node, "c"), "to the second, and with its grace period")
				require.Len(t, starts(node, "c"), 1)
				require.Equal(t, []string{"job"}, eventsOf(node, "DeadlineExceeded"))
				require.Equal(t, v1.PodRunning, node.Status("web").Phase)
			})
		})
	}
}

func TestAPodThatIsDoneInTimeHasSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		node.World.Script(fake.Target{Container: "c"}, fake.Exit(30*time.Second, 0))
		node.Apply(nodetest.Pod("job", nodetest.Container("c"), nodetest.RestartPolicy(v1.RestartPolicyNever), deadline(31)))
		time.Sleep(time.Hour)
		require.Equal(t, v1.PodSucceeded, node.Status("job").Phase)
		require.Empty(t, eventsOf(node, "DeadlineExceeded"))
	})
}

// The deadline belongs to the pod, not to the agent: a new agent does not extend the deadline, and
// does not start a pod whose deadline passed while no agent ran.
func TestADeadlineHoldsAcrossAgents(t *testing.T) {
	for _, source := range []string{podconfig.SourceFile, podconfig.SourceAPI} {
		for _, absent := range []time.Duration{10 * time.Second, 5 * time.Minute} {
			t.Run(source+" "+absent.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					node := nodetest.New(t, nodetest.Options{Source: source})
					node.Apply(nodetest.Pod("job", nodetest.Container("c"), deadline(90)))
					time.Sleep(time.Minute)
					node.StopAgent()
					time.Sleep(absent)
					node.StartAgent()
					time.Sleep(time.Hour)
					requireOverdue(t, node.Status("job"))
					require.Equal(t, []time.Duration{max(90*time.Second, time.Minute+absent)}, ends(node, "c"))

					node.RestartAgent()
					time.Sleep(time.Hour)
					requireOverdue(t, node.Status("job"))
					require.Len(t, starts(node, "c"), 1)
				})
			})
		}
	}
}

// The kubelet checks deadlines between syncs. Here the deadline ends a hanging start.
func TestADeadlineEndsAPodThatDoesNotEvenStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		fault, err := node.World.Inject(fake.Fault{On: fake.Target{Op: fake.OpCreateContainer}, HangUntilCtx: true})
		require.NoError(t, err)
		node.Apply(nodetest.Pod("job", nodetest.Container("c"), deadline(20)))
		time.Sleep(25 * time.Second)
		node.Settle()
		requireOverdue(t, node.Status("job"))
		require.Equal(t, 1, count(node, fake.Target{Op: fake.OpStopSandbox}))
		fault.Clear()
	})
}

// An API server may shorten a deadline while a pod runs, and set one.
func TestADeadlineMayBeMoved(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after int64 // 0: none
		want          time.Duration
	}{
		{name: "earlier", before: 600, after: 120, want: 120 * time.Second},
		{name: "later", before: 90, after: 600, want: 600 * time.Second},
		{name: "into the past", before: 600, after: 5, want: time.Minute},
		{name: "set", after: 100, want: 100 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI})
				job := func(seconds int64) *v1.Pod {
					p := nodetest.Pod("job", nodetest.Container("c"))
					if seconds > 0 {
						deadline(seconds)(p)
					}
					return p
				}
				node.Apply(job(tt.before))
				time.Sleep(time.Minute)
				node.Apply(job(tt.after))
				time.Sleep(time.Hour)
				requireOverdue(t, node.Status("job"))
				require.Equal(t, []time.Duration{tt.want}, ends(node, "c"))
			})
		})
	}
}

// A pod that left its source and came back has a new life.
func TestADeadlineIsThatOfOneLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		job := nodetest.Pod("job", nodetest.Container("c"), deadline(90))
		node.Apply(job)
		time.Sleep(time.Minute)
		node.Apply()
		time.Sleep(5 * time.Minute)
		node.Apply(job)
		time.Sleep(time.Hour)
		require.Len(t, starts(node, "c"), 2)
		require.Equal(t, []time.Duration{time.Minute, 6*time.Minute + 90*time.Second}, ends(node, "c"))
	})
}
