// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// TestWhatWasLostSightOfIsNotOver: a container of a "Never" pod in an unknown state is stopped
// first, and its exit decides. It never counts as restarted.
func TestWhatWasLostSightOfIsNotOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		pod    []string
		seen   []obs
		want   []v1.PodPhase
		counts int32 // of container a in the end
	}{
		{"Never, it succeeds", never, []string{"main a"},
			[]obs{{"sandbox s", "a running"}, {"sandbox s", "a unknown"}, {"sandbox s", "a exited 0"}}, []v1.PodPhase{running, running, succeeded}, 0},
		{"Never, it fails", never, []string{"main a"},
			[]obs{{"sandbox s", "a running"}, {"sandbox s", "a unknown"}, {"sandbox s", "a exited 137"}}, []v1.PodPhase{running, running, failed}, 0},
		{"OnFailure", onFailure, []string{"main a"},
			[]obs{{"sandbox s", "a running"}, {"sandbox s", "a unknown"}, {"sandbox s", "a running #1 =1", "a exited 137"}}, []v1.PodPhase{running, running, running}, 1},
		{"Never, one has ended", never, []string{"main a", "main b"},
			[]obs{{"sandbox s", "b exited 1", "a running"}, {"sandbox s", "b exited 1", "a unknown"}}, []v1.PodPhase{running, running}, 0},
		{"Never, an init container", never, []string{"init i", "main a"},
			[]obs{{"sandbox s", "i running"}, {"sandbox s", "i unknown"}, {"sandbox s", "i exited 137"}}, []v1.PodPhase{pending, pending, failed}, 0},
		{"Never, its sandbox is gone", never, []string{"init i", "main a"},
			[]obs{{"sandbox s", "a running", "i exited 0"}, {"sandbox s dead", "a unknown", "i exited 0"}}, []v1.PodPhase{running, pending}, 0},
		{"an older instance still runs", never, []string{"main a"},
			[]obs{{"sandbox s", "a exited 0", "a running"}}, []v1.PodPhase{running}, 0},
		{"an ephemeral container holds up nothing", never, []string{"main a", "debug d"},
			[]obs{{"sandbox s", "d unknown", "a exited 0"}}, []v1.PodPhase{succeeded}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Pod: podOf(t, c.policy, c.pod...), Now: noon}
			for i, o := range c.seen {
				in.Observed = seen(t, o...)
				out := Generate(in)
				assert.Equal(t, c.want[i], out.Phase, "observation %d: %s", i, brief(&out))
				in.Previous = &out
			}
			assert.Equal(t, c.counts, statusOf(in.Previous, "a").RestartCount)
		})
	}
}

// TestFinished is about containers whose records were removed.
func TestFinished(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		pod    []string
		seen   []obs
		want   bool // of container a
	}{
		{"never made", never, []string{"main a"}, []obs{{}}, false},
		{"OnFailure, it succeeded", onFailure, []string{"main a"}, []obs{{"sandbox s", "a exited 0"}, {"sandbox s"}}, true},
		{"OnFailure, it failed", onFailure, []string{"main a"}, []obs{{"sandbox s", "a exited 1"}, {"sandbox s"}}, false},
		{"Never, it failed", never, []string{"main a"}, []obs{{"sandbox s", "a exited 1"}, {"sandbox s"}}, true},
		{"Never, it ran", never, []string{"main a"}, []obs{{"sandbox s", "a running"}, {"sandbox s"}}, true},
		{"Always", always, []string{"main a"}, []obs{{"sandbox s", "a exited 0"}, {"sandbox s"}}, false},
		{"an init container: it is planned for by its sandbox", never, []string{"init a", "main b"}, []obs{{"sandbox s", "a exited 0"}, {"sandbox s"}}, false},
		{"all are restarted in place", never, []string{"main a", "main b policy=Never rule=RestartAllContainers/In/42"},
			[]obs{{"sandbox s", "b running", "a exited 0"}, {"sandbox s", "b exited 42", "a exited 0"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Pod: podOf(t, c.policy, c.pod...), Now: noon}
			for _, o := range c.seen {
				in.Observed = seen(t, o...)
				out := Generate(in)
				in.Previous = &out
			}
			assert.Equal(t, c.want, runtime.Finished(in.Pod, in.Previous, "a", nil), brief(in.Previous))
		})
	}
}

// TestMadeLate: an instance requested by an earlier agent may appear after its container is
// published as ended for good. The instance is not started, and changes nothing.
func TestMadeLate(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		seen   []obs
		late   bool
		phase  v1.PodPhase
	}{
		{"Never", never, []obs{{"sandbox s", "a exited 137"}, {"sandbox s", "a created #1", "a exited 137"}}, true, failed},
		{"Never, it was not told", never, []obs{{"sandbox s", "a running"}, {"sandbox s", "a created #1", "a exited 137"}}, false, running},
		{"OnFailure, it failed", onFailure, []obs{{"sandbox s", "a exited 1"}, {"sandbox s", "a created #1", "a exited 1"}}, false, running},
		{"OnFailure, it succeeded", onFailure, []obs{{"sandbox s", "a exited 0"}, {"sandbox s", "a created #1", "a exited 0"}}, true, succeeded},
		{"Never, its successor was removed", never, []obs{{"sandbox s", "a created #1", "a exited 137"}, {"sandbox s"}, {"sandbox s"}}, true, failed},
		{"Never, for the first time", never, []obs{{"sandbox s"}, {"sandbox s", "a created"}}, false, pending},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Pod: podOf(t, c.policy, "main a"), Now: noon}
			var before v1.PodStatus
			for _, o := range c.seen {
				in.Observed = seen(t, o...)
				out := Generate(in)
				if in.Previous != nil {
					before = *in.Previous
				}
				in.Previous = &out
			}
			assert.Equal(t, c.phase, in.Previous.Phase, brief(in.Previous))
			made := in.Observed.Latest("a")
			assert.Equal(t, c.late, runtime.Finished(in.Pod, in.Previous, "a", made))
			plan := runtime.Plan(runtime.PlanInput{
				Pod: in.Pod, Status: in.Observed,
				Finished: func(name string, made *runtime.ContainerStatus) bool {
					return runtime.Finished(in.Pod, in.Previous, name, made)
				},
			})
			assert.Equal(t, !c.late, len(plan.Start) > 0, plan.String())
			if c.late {
				assert.Equal(t, before.ContainerStatuses, in.Previous.ContainerStatuses)
			}
		})
	}
}

// TestAPodThatIsOverStartsNothing connects the phase with the planner: after the first status with
// a final phase no container of the pod is started, neither at once nor after the ends of killed
// containers. (Random observations of init containers contain too many impossible states.)
func TestAPodThatIsOverStartsNothing(t *testing.T) {
	seed := *statusSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -status-seed %d", seed)
	d := dice{rand.New(rand.NewPCG(seed, 99))}
	ends := 0
	for range 4_000 {
		in := Input{Pod: d.pod(), Now: noon}
		in.Pod.Spec.InitContainers = nil
		for range observations {
			in.Now = in.Now.Add(time.Minute)
			d.next(&in)
			in.Stage, in.Override, in.Pod.DeletionTimestamp = StageSync, nil, nil
			out := Generate(in)
			in.Previous = &out
			if podfacts.IsTerminal(out.Phase) {
				ends++
				require.NoError(t, d.startsNothing(in))
				break
			}
		}
	}
	assert.Greater(t, ends, 100)
}

// startsNothing follows a pod until its plan is empty. in.Previous is the published status.
func (d dice) startsNothing(in Input) error {
	status := in.Observed
	for range 8 {
		plan := runtime.Plan(runtime.PlanInput{
			Pod: in.Pod, Status: status,
			Finished: func(name string, made *runtime.ContainerStatus) bool {
				return runtime.Finished(in.Pod, in.Previous, name, made)
			},
		})
		if len(plan.Start) > 0 {
			return fmt.Errorf("it is over by %s,\nas seen: %s\nand by %s\nthe plan is\n%s", brief(in.Previous), instances(in.Observed), instances(status), plan.String())
		}
		if plan.Empty() {
			return nil
		}
		status = d.after(plan, status)
	}
	return fmt.Errorf("no end of it: %s", instances(status))
}

// after returns the observation after a plan without starts.
func (d dice) after(plan runtime.Actions, status *runtime.PodStatus) *runtime.PodStatus {
	out := &runtime.PodStatus{Sandboxes: slices.Clone(status.Sandboxes), Containers: slices.Clone(status.Containers)}
	for i := range out.Containers {
		c := &out.Containers[i]
		killed := plan.KillPod || slices.ContainsFunc(plan.Kill, func(k runtime.Kill) bool { return k.ID == c.ID })
		if killed && (c.State == runtime.StateRunning || c.State == runtime.StateUnknown) {
			c.State, c.ExitCode = runtime.StateExited, pick[int32](d, 0, 1, 137)
		}
	}
	for i := range out.Sandboxes {
		out.Sandboxes[i].Ready = out.Sandboxes[i].Ready && !plan.KillPod
	}
	return out
}
