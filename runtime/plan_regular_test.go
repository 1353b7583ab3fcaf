// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// TestPlanRegular has the rows of the table for regular containers. Container k
// runs, so that a plan which keeps nothing is not the end of the pod.
func TestPlanRegular(t *testing.T) {
	const never, onFailure = v1.RestartPolicyNever, v1.RestartPolicyOnFailure
	pod := []string{"main a liveness startup", "main k"}
	runPlanCases(t, []planCase{
		{name: "none", pod: pod, status: []string{"sandbox s", "k running"},
			want: []string{"start containers[0] a: first start"}},
		{name: "none, Never", policy: never, pod: pod, status: []string{"sandbox s", "k running"},
			want: []string{"start containers[0] a: first start"}},
		{name: "none, and known to have run for good", policy: never, pod: pod, status: []string{"sandbox s", "k running"}, finished: "a", want: nothing},
		{name: "known to have run for good, and another was made", policy: never, pod: pod, status: []string{"sandbox s", "k running", "a created"}, finished: "a", want: nothing},
		{name: "known to have run for good, and yet it runs", policy: never, pod: pod, status: []string{"sandbox s", "k running", "a running"}, finished: "a", want: nothing},
		{name: "known to have run for good, and yet it has failed", policy: onFailure, pod: pod, status: []string{"sandbox s", "k running", "a exited 1"},
			finished: "a", want: []string{"start containers[0] a: exited with code 1"}},
		{name: "created", policy: never, pod: pod, status: []string{"sandbox s", "k running", "a created"},
			want: []string{"start containers[0] a: was made but never started"}},
		{name: "exited, Always", pod: pod, status: []string{"sandbox s", "k running", "a exited 0"},
			want: []string{"start containers[0] a: exited with code 0"}},
		{name: "exited 0, OnFailure", policy: onFailure, pod: pod, status: []string{"sandbox s", "k running", "a exited 0"}, want: nothing},
		{name: "exited 2, OnFailure", policy: onFailure, pod: pod, status: []string{"sandbox s", "k running", "a exited 2"},
			want: []string{"start containers[0] a: exited with code 2"}},
		{name: "exited 2, Never", policy: never, pod: pod, status: []string{"sandbox s", "k running", "a exited 2"}, want: nothing},
		{name: "unknown, Never: how it ends decides", policy: never, pod: pod, status: []string{"sandbox s", "k running", "a unknown"},
			want: []string{"kill a (a-0): is in an unknown state"}},
		{name: "unknown, Never: until then the pod is not over", policy: never, pod: []string{"main a"}, status: []string{"sandbox s", "a unknown"},
			want: []string{"kill a (a-0): is in an unknown state"}},
		{name: "unknown, OnFailure", policy: onFailure, pod: pod, status: []string{"sandbox s", "k running", "a unknown"},
			want: []string{"kill a (a-0): is in an unknown state, will be restarted", "start containers[0] a: is in an unknown state"}},
		{name: "running, hash changed, whatever the policy", policy: never, pod: pod, status: []string{"sandbox s", "k running", "a running oldhash"},
			want: []string{"kill a (a-0): definition changed, will be restarted", "start containers[0] a: definition changed"}},
		{name: "running, the hash before the probes", policy: never, pod: pod,
			status: []string{"sandbox s", "k running", "a running oldhash liveness=bad startup=bad"},
			want:   []string{"kill a (a-0): definition changed, will be restarted", "start containers[0] a: definition changed"}},
		{name: "running, liveness failed", pod: pod, status: []string{"sandbox s", "k running", "a running liveness=bad"},
			want: []string{"kill a (a-0): failed liveness probe, will be restarted", "start containers[0] a: failed liveness probe"}},
		{name: "running, liveness before startup", pod: pod, status: []string{"sandbox s", "k running", "a running liveness=bad startup=bad"},
			want: []string{"kill a (a-0): failed liveness probe, will be restarted", "start containers[0] a: failed liveness probe"}},
		{name: "running, startup failed", policy: onFailure, pod: pod, status: []string{"sandbox s", "k running", "a running startup=bad"},
			want: []string{"kill a (a-0): failed startup probe, will be restarted", "start containers[0] a: failed startup probe"}},
		{name: "running, liveness failed, Never", policy: never, pod: pod, status: []string{"sandbox s", "k running", "a running liveness=bad"},
			want: []string{"kill a (a-0): failed liveness probe"}},
		{name: "running, startup failed, its own Never, rules are not asked",
			pod:    []string{"main a startup policy=Never rule=Restart/NotIn/0", "main k"},
			status: []string{"sandbox s", "k running", "a running startup=bad"},
			want:   []string{"kill a (a-0): failed startup probe"}},
		{name: "running, startup failed, its own Never, rules decide by how it ends whether the pod is over",
			pod:    []string{"main a startup policy=Never rule=Restart/NotIn/0"},
			status: []string{"sandbox s", "a running startup=bad"},
			want:   []string{"kill a (a-0): failed startup probe"}},
		{name: "running, no result yet", pod: pod, status: []string{"sandbox s", "k running", "a running"}, want: nothing},
		{name: "running, a failure of a probe it does not have", pod: []string{"main k"},
			status: []string{"sandbox s", "k running liveness=bad startup=bad"}, want: nothing},
		{name: "only the newest instance counts", policy: never, pod: pod,
			status: []string{"sandbox s", "k running", "a exited 0", "a exited 1", "a created"}, want: nothing},
		{name: "plans are in spec order (Q4)", pod: []string{"main c", "main a", "main b"},
			status: []string{"sandbox s", "a running oldhash", "b running oldhash", "c running oldhash"},
			want: []string{"kill c (c-0): definition changed, will be restarted", "kill a (a-0): definition changed, will be restarted",
				"kill b (b-0): definition changed, will be restarted", "start containers[0] c: definition changed",
				"start containers[1] a: definition changed", "start containers[2] b: definition changed"}},
	})
}

// TestPlanEndsPod is step 8: nothing is kept and nothing starts.
func TestPlanEndsPod(t *testing.T) {
	const never, onFailure = v1.RestartPolicyNever, v1.RestartPolicyOnFailure
	end := []string{"kill pod: no regular container runs or is to be started"}
	runPlanCases(t, []planCase{
		{name: "all done", policy: onFailure, pod: []string{"main a", "main b"},
			status: []string{"sandbox s", "b exited 0", "a exited 0"}, want: end},
		{name: "sidecars do not keep it alive, nor are they started", policy: never, pod: []string{"side s", "side u", "main a"},
			status: []string{"sandbox s", "a exited 1", "u exited 1", "s running"}, want: end},
		{name: "ephemeral containers do not keep it alive, nor are they started", policy: never, pod: []string{"main a", "debug d", "debug e"},
			status: []string{"sandbox s", "d running", "a exited 1"}, want: end},
		{name: "a kill without a restart comes first, with the grace period of the probe", policy: never, pod: []string{"main a liveness"},
			status: []string{"sandbox s", "a running liveness=bad"}, want: []string{"kill a (a-0): failed liveness probe"}},
		{name: "once stopped nothing is left to do", policy: never, pod: []string{"side s", "main a"},
			status: []string{"sandbox s dead", "s exited 137", "a exited 1"}, want: nothing},
	})
}

// TestPlanKillsSuperseded: nothing runs twice, whatever was observed.
func TestPlanKillsSuperseded(t *testing.T) {
	const why = ": an older instance still runs"
	runPlanCases(t, []planCase{
		{name: "beside one that runs", pod: []string{"main a"}, status: []string{"sandbox s", "a running", "a running", "a exited 1"},
			want: []string{"kill a (a-1)" + why}},
		{name: "before one starts", pod: []string{"main a"}, status: []string{"sandbox s", "a exited 1", "a unknown"},
			want: []string{"kill a (a-0)" + why, "start containers[0] a: exited with code 1"}},
		{name: "init, in an earlier sandbox", pod: []string{"init i", "main a"}, status: []string{"sandbox t attempt=1", "sandbox s dead", "i running @s"},
			want: []string{"kill i (i-0)" + why, "start initContainers[0] i: first start"}},
		{name: "a sidecar beside itself", pod: []string{"side s", "main a"}, status: []string{"sandbox s", "a running", "s running", "s running"},
			want: []string{"kill s (s-0)" + why}},
		{name: "not ephemeral ones", pod: []string{"main a", "debug d"},
			status: []string{"sandbox s", "a running", "d running", "d running"}, want: nothing},
		{name: "and what the pod does not have any more", pod: []string{"main a"},
			status: []string{"sandbox s", "a running", "gone running", "other exited 1"},
			want:   []string{"kill gone (gone-0): the pod has no such container any more"}},
	})
}

func TestPlanEphemeral(t *testing.T) {
	runPlanCases(t, []planCase{
		{name: "started once init is under way, after the others", pod: []string{"init i", "main a", "debug d"},
			status: []string{"sandbox s", "i exited 1"},
			want:   []string{"start initContainers[0] i: exited with code 1", "start ephemeralContainers[0] d: first start"}},
		{name: "left alone whatever became of it", pod: []string{"main a", "debug d", "debug e", "debug f", "debug g"},
			status: []string{"sandbox s", "a running", "d exited 1", "e unknown", "f created", "g running oldhash"}, want: nothing},
	})
}

// TestPlanOfDeletedPod: from the deletion on the pod is KillPod's.
func TestPlanOfDeletedPod(t *testing.T) {
	runPlanCases(t, []planCase{
		{name: "no sandbox", pod: []string{"deleted", "main a"}, want: nothing},
		{name: "sandbox lost", pod: []string{"deleted", "main a"}, status: []string{"sandbox s dead", "a running"}, want: nothing},
		{name: "containers missing", pod: []string{"deleted", "init i", "main a", "debug d"}, status: []string{"sandbox s"}, want: nothing},
		{name: "definition changed", pod: []string{"deleted", "side s", "main a"}, status: []string{"sandbox s", "a running oldhash", "s exited 1"}, want: nothing},
		{name: "probes failed", pod: []string{"deleted", "main a liveness"}, status: []string{"sandbox s", "a running liveness=bad"}, want: nothing},
	})
	t.Run("a restart of all", func(t *testing.T) {
		in := planCase{pod: []string{"deleted", "main a policy=Never rule=RestartAllContainers/In/1"},
			status: []string{"sandbox s", "a exited 1"}}.input(t)
		got := runtime.Plan(in)
		assert.True(t, got.Empty(), got.String())
	})
}

// TestPlanDefaults: every field but Pod may be left out.
func TestPlanDefaults(t *testing.T) {
	empty := runtime.Plan(runtime.PlanInput{})
	assert.True(t, empty.Empty())

	in := planCase{pod: []string{"main a liveness startup"}, status: []string{"sandbox s attempt=3", "a running"}}.input(t)
	in.Probes = nil
	got := runtime.Plan(in)
	assert.True(t, got.Empty(), got.String())
	assert.Equal(t, runtime.SandboxID("s"), got.Sandbox)
	assert.Equal(t, uint32(3), got.Attempt)
}

// TestPlanKillReasons: the reason decides the grace period.
func TestPlanKillReasons(t *testing.T) {
	for status, want := range map[string]runtime.KillReason{
		"a unknown":              runtime.KillUnknownState,
		"a running oldhash":      runtime.KillSpecChanged,
		"a running liveness=bad": runtime.KillLivenessProbe,
		"a running startup=bad":  runtime.KillStartupProbe,
	} {
		for _, kind := range []string{"main", "side"} {
			options := " a liveness startup"
			words := status
			if kind == "side" && status != "a running startup=bad" {
				words += " startup=ok"
			}
			c := planCase{pod: []string{kind + options, "main k"}, status: []string{"sandbox s", "k running", words}}
			got := runtime.Plan(c.input(t))
			if assert.Len(t, got.Kill, 1, kind+status) {
				assert.Equal(t, want, got.Kill[0].Reason, kind+status)
			}
		}
	}
}
