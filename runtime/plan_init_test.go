// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestPlanPlainInit has the rows of the init table for containers that run to
// completion.
func TestPlanPlainInit(t *testing.T) {
	const never, onFailure = v1.RestartPolicyNever, v1.RestartPolicyOnFailure
	pod := []string{"init i", "init j", "main a"}
	runPlanCases(t, []planCase{
		{name: "none was made", pod: pod, status: []string{"sandbox s"},
			want: []string{"start initContainers[0] i: first start"}},
		{name: "created: its start failed", pod: pod, status: []string{"sandbox s", "i created"},
			want: []string{"start initContainers[0] i: was made but never started"}},
		{name: "running: wait", pod: pod, status: []string{"sandbox s", "i running"}, want: nothing},
		{name: "running with an old hash: wait all the same", pod: pod, status: []string{"sandbox s", "i running oldhash"}, want: nothing},
		{name: "exited ok: the next", pod: pod, status: []string{"sandbox s", "i exited 0"},
			want: []string{"start initContainers[1] j: first start, after i"}},
		{name: "exited ok, the last: initialized", pod: pod, status: []string{"sandbox s", "j exited 0", "i exited 0"},
			want: []string{"start containers[0] a: first start"}},
		{name: "the last one decides, earlier records may be gone", pod: pod, status: []string{"sandbox s", "j exited 0"},
			want: []string{"start containers[0] a: first start"}},
		{name: "an earlier one that failed is past", pod: pod, status: []string{"sandbox s", "j running", "i exited 1"}, want: nothing},
		{name: "failed", pod: pod, status: []string{"sandbox s", "i exited 1"},
			want: []string{"start initContainers[0] i: exited with code 1"}},
		{name: "failed, OnFailure", policy: onFailure, pod: pod, status: []string{"sandbox s", "i exited 1"},
			want: []string{"start initContainers[0] i: exited with code 1"}},
		{name: "failed, Never", policy: never, pod: pod, status: []string{"sandbox s", "i exited 1"},
			want: []string{"kill pod: init container i failed and is not restarted"}},
		{name: "failed, its own Never", pod: []string{"init i policy=Never", "main a"}, status: []string{"sandbox s", "i exited 1"},
			want: []string{"kill pod: init container i failed and is not restarted"}},
		{name: "failed, its own Never with a rule", pod: []string{"init i policy=Never rule=Restart/In/1", "main a"},
			status: []string{"sandbox s", "i exited 1"},
			want:   []string{"start initContainers[0] i: exited with code 1"}},
		{name: "failed for good: sidecars already planned are not started", policy: never,
			pod: []string{"side s", "init i", "main a", "debug d"}, status: []string{"sandbox s", "i exited 1", "s exited 0"},
			want: []string{"kill pod: init container i failed and is not restarted"}},
		{name: "out of memory is a failure whatever the code", policy: onFailure, pod: pod, status: []string{"sandbox s", "i exited 0 OOMKilled"},
			want: []string{"start initContainers[0] i: was killed for lack of memory (code 0)"}},
		{name: "out of memory, Never", policy: never, pod: pod, status: []string{"sandbox s", "i exited 0 OOMKilled"},
			want: []string{"kill pod: init container i failed and is not restarted"}},
		{name: "unknown", policy: onFailure, pod: pod, status: []string{"sandbox s", "i unknown"},
			want: []string{"kill i (i-0): is in an unknown state, will be restarted", "start initContainers[0] i: is in an unknown state"}},
		{name: "unknown, Never: how it ends decides", policy: never, pod: pod, status: []string{"sandbox s", "i unknown"},
			want: []string{"kill i (i-0): is in an unknown state"}},
		{name: "unknown, its own Never, rules cannot apply yet", pod: []string{"init i policy=Never rule=Restart/NotIn/7", "main a"},
			status: []string{"sandbox s", "i unknown"},
			want:   []string{"kill i (i-0): is in an unknown state"}},
		{name: "once a regular container was made only sidecars matter", policy: never, pod: pod,
			status: []string{"sandbox s", "a running", "j exited 1", "i unknown"}, want: nothing},
	})
}

// TestPlanSidecar has the rows of the init table for sidecars, R1 to R6 among
// them.
func TestPlanSidecar(t *testing.T) {
	const never = v1.RestartPolicyNever
	alone := []string{"side s", "main a"}
	before := []string{"side s", "init j", "main a"}
	startup := []string{"side s startup", "init j", "main a"}
	liveness := []string{"side s liveness", "init j", "main a"}
	next := "start initContainers[1] j: first start, after s"
	runPlanCases(t, []planCase{
		{name: "none, nothing later was made: from the beginning", pod: before, status: []string{"sandbox s"},
			want: []string{"start initContainers[0] s: first start"}},
		{name: "none, a later one was made: its record was lost", pod: before, status: []string{"sandbox s", "j running"},
			want: []string{"start initContainers[0] s: its record was lost"}},
		{name: "none, initialized: its record was lost", pod: alone, status: []string{"sandbox s", "a running"},
			want: []string{"start initContainers[0] s: its record was lost"}},
		{name: "created", pod: before, status: []string{"sandbox s", "s created"},
			want: []string{"start initContainers[0] s: was made but never started"}},
		{name: "exited 0, Never: started again", policy: never, pod: before, status: []string{"sandbox s", "s exited 0"},
			want: []string{"start initContainers[0] s: exited with code 0"}},
		{name: "exited 1, Never: started again", policy: never, pod: alone, status: []string{"sandbox s", "a running", "s exited 1"},
			want: []string{"start initContainers[0] s: exited with code 1"}},
		{name: "unknown, Never: killed and started again", policy: never, pod: alone, status: []string{"sandbox s", "a running", "s unknown"},
			want: []string{"kill s (s-0): is in an unknown state, will be restarted", "start initContainers[0] s: is in an unknown state"}},

		{name: "R1 no startup result: wait", pod: startup, status: []string{"sandbox s", "s running"}, want: nothing},
		{name: "R1 no startup result: an old hash waits too", pod: startup, status: []string{"sandbox s", "s running oldhash"}, want: nothing},
		{name: "R2 startup failed", pod: startup, status: []string{"sandbox s", "s running startup=bad"},
			want: []string{"kill s (s-0): failed startup probe, will be restarted", "start initContainers[0] s: failed startup probe"}},
		{name: "R3/R4 startup succeeded: the next", pod: startup, status: []string{"sandbox s", "s running startup=ok"}, want: []string{next}},
		{name: "R4 no startup probe: running is enough", pod: before, status: []string{"sandbox s", "s running"}, want: []string{next}},
		{name: "R4 the last: initialized", pod: alone, status: []string{"sandbox s", "s running"},
			want: []string{"start containers[0] a: first start"}},
		{name: "R4 init is past it: nothing follows", pod: before, status: []string{"sandbox s", "j running", "s running"}, want: nothing},
		{name: "R5 hash changed: the next waits", pod: before, status: []string{"sandbox s", "s running oldhash"},
			want: []string{"kill s (s-0): definition changed, will be restarted", "start initContainers[0] s: definition changed"}},
		{name: "R5 before R6", pod: liveness, status: []string{"sandbox s", "j running", "s running oldhash liveness=bad"},
			want: []string{"kill s (s-0): definition changed, will be restarted", "start initContainers[0] s: definition changed"}},
		{name: "R6 no liveness result holds nothing up", pod: liveness, status: []string{"sandbox s", "s running"}, want: []string{next}},
		{name: "R6 liveness failed: the next waits", pod: liveness, status: []string{"sandbox s", "s running liveness=bad"},
			want: []string{"kill s (s-0): failed liveness probe, will be restarted", "start initContainers[0] s: failed liveness probe"}},
	})
}

// TestPlanHeldBySidecar: containers behind a sidecar that is not up wait, and running containers
// stay.
func TestPlanHeldBySidecar(t *testing.T) {
	one, probed := []string{"side s", "main a"}, []string{"side s startup", "main a"}
	two := []string{"side s liveness", "side u startup", "side v", "main a"}
	start := "start initContainers[0] s: exited with code 137"
	runPlanCases(t, []planCase{
		{name: "both have ended: the sidecar first", pod: one, status: []string{"sandbox s", "a exited 137", "s exited 137"}, want: []string{start}},
		{name: "then the regular one", pod: one, status: []string{"sandbox s", "s running", "a exited 137", "s exited 137"},
			want: []string{"start containers[0] a: exited with code 137"}},
		{name: "not before there is a startup result", pod: probed, status: []string{"sandbox s", "s running", "a exited 137", "s exited 137"}, want: nothing},
		{name: "but then", pod: probed, status: []string{"sandbox s", "s running startup=ok", "a exited 137", "s exited 137"},
			want: []string{"start containers[0] a: exited with code 137"}},
		{name: "the sidecar's start failed", pod: one, status: []string{"sandbox s", "s created", "a exited 1"},
			want: []string{"start initContainers[0] s: was made but never started"}},
		{name: "a regular container runs on without its sidecar", pod: one, status: []string{"sandbox s", "a running", "s exited 137"}, want: []string{start}},
		{name: "a sibling that runs lets nothing pass", pod: []string{"side s", "main a", "main b"},
			status: []string{"sandbox s", "a running", "b exited 1", "s exited 137"}, want: []string{start}},
		{name: "what is to be replaced runs on", pod: []string{"side s", "main a liveness", "main b", "main c"},
			status: []string{"sandbox s", "a running liveness=bad", "b running oldhash", "c unknown", "s exited 137"}, want: []string{start}},
		{name: "what is to end ends", pod: []string{"side s", "main a liveness policy=Never", "main b policy=Never"},
			status: []string{"sandbox s", "a running liveness=bad", "b unknown", "s exited 137"},
			want:   []string{"kill a (a-0): failed liveness probe", "kill b (b-0): is in an unknown state", start}},
		{name: "the sidecar is replaced: what it is ahead of after it", pod: one, status: []string{"sandbox s", "a running oldhash", "s running oldhash"},
			want: []string{"kill s (s-0): definition changed, will be restarted", "start initContainers[0] s: definition changed"}},
		{name: "an init container that failed", pod: []string{"side s", "init i", "main a"}, status: []string{"sandbox s", "i exited 1", "s exited 137"}, want: []string{start}},
		{name: "the first regular one", pod: []string{"side s", "init i", "main a"}, status: []string{"sandbox s", "i exited 0", "s exited 137"}, want: []string{start}},
		{name: "a sidecar behind does not hold an init container", pod: []string{"init i", "side s", "main a"}, status: []string{"sandbox s", "i exited 1"},
			want: []string{"start initContainers[0] i: exited with code 1"}},
		{name: "sidecars one after the other", pod: two, status: []string{"sandbox s", "a exited 1", "v exited 2", "u running startup=bad", "s running liveness=bad"},
			want: []string{"kill s (s-0): failed liveness probe, will be restarted", "start initContainers[0] s: failed liveness probe"}},
		{name: "the second", pod: two, status: []string{"sandbox s", "a exited 1", "v exited 2", "u running startup=bad", "s running"},
			want: []string{"kill u (u-0): failed startup probe, will be restarted", "start initContainers[1] u: failed startup probe"}},
		{name: "the third", pod: two, status: []string{"sandbox s", "a exited 1", "v exited 2", "u running startup=ok", "s running"},
			want: []string{"start initContainers[2] v: exited with code 2"}},
		{name: "nothing is to run: the pod ends, and the sidecar is not restarted for it", policy: v1.RestartPolicyNever, pod: one,
			status: []string{"sandbox s", "a exited 0", "s exited 137"},
			want:   []string{"kill pod: no regular container runs or is to be started"}},
		{name: "ephemeral containers wait for nothing", pod: []string{"side s", "main a", "debug d"}, status: []string{"sandbox s", "a exited 1", "s exited 137"},
			want: []string{start, "start ephemeralContainers[0] d: first start"}},
	})
}
