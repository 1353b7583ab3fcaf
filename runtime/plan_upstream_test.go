// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Each test below shows that Plan does not have the fault of the kubelet reported under the number
// in its name.

// After a reboot the records of the old sandbox made the kubelet believe that
// init was complete, and it started the regular containers right away.
func TestUpstream137710InitRunsAgainAfterReboot(t *testing.T) {
	pod := []string{"init i", "init j", "main a"}
	old := []string{"a exited 255 @old", "j exited 0 @old", "i exited 0 @old"}
	fresh := append([]string{"sandbox new attempt=1", "sandbox old dead"}, old...)
	runPlanCases(t, []planCase{
		{name: "before the new sandbox", pod: pod, status: append([]string{"sandbox old dead"}, old...),
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start initContainers[0] i: init starts over in a new sandbox"}},
		{name: "the purge of the old records failed", pod: pod, status: fresh,
			want: []string{"start initContainers[0] i: first start"}},
		{name: "the first has completed again, the second has not", pod: pod,
			status: append([]string{fresh[0], fresh[1], "i exited 0 @new"}, old...),
			want:   []string{"start initContainers[1] j: first start, after i"}},
		{name: "the second runs", pod: pod,
			status: append([]string{fresh[0], fresh[1], "j running @new", "i exited 0 @new"}, old...), want: nothing},
		{name: "all of init has completed again", pod: pod,
			status: append([]string{fresh[0], fresh[1], "j exited 0 @new", "i exited 0 @new"}, old...),
			want:   []string{"start containers[0] a: exited with code 255"}},
	})
}

// A failed init container of the old sandbox has no effect in the new sandbox. In particular it
// does not end the pod.
func TestUpstream140309OldInitFailureIsForgotten(t *testing.T) {
	runPlanCases(t, []planCase{
		{name: "failed before the reboot", pod: []string{"init i", "main a"},
			status: []string{"sandbox new attempt=1", "sandbox old dead", "i exited 1 @old"},
			want:   []string{"start initContainers[0] i: first start"}},
		{name: "lost sight of by the reboot", policy: v1.RestartPolicyOnFailure, pod: []string{"init i", "main a"},
			status: []string{"sandbox old dead", "i unknown @old"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start initContainers[0] i: init starts over in a new sandbox"}},
	})
}

// With a sidecar running and every main container exited the kubelet took the
// pod for not initialized, and in some layouts never restarted the mains.
func TestUpstream136969MainsRestartWhileSidecarRuns(t *testing.T) {
	restart := []string{"start containers[0] a: exited with code 1"}
	runPlanCases(t, []planCase{
		{name: "sidecar last", pod: []string{"init i", "side s", "main a"},
			status: []string{"sandbox s", "a exited 1", "s running", "i exited 0"}, want: restart},
		{name: "sidecar first, the record after it pruned", pod: []string{"side s", "init i", "main a"},
			status: []string{"sandbox s", "a exited 1", "s running"}, want: restart},
		{name: "sidecar with a startup probe that has passed", pod: []string{"init i", "side s startup", "main a"},
			status: []string{"sandbox s", "a exited 1", "s running startup=ok"}, want: restart},
		{name: "mains only made, never started", pod: []string{"side s", "init i", "main a"},
			status: []string{"sandbox s", "a created", "s running"}, want: []string{"start containers[0] a: was made but never started"}},
	})
}

// After a reboot the kubelet showed a pod with init containers as Running. In the plan, main
// containers of the old sandbox in any state do not prove that init has completed. (Package
// podstatus has the other half.)
func TestUpstream126650OldMainsDoNotProveInit(t *testing.T) {
	for _, state := range []string{"exited 0", "exited 1", "created", "unknown"} {
		runPlanCases(t, []planCase{{name: state, pod: []string{"init i", "main a"},
			status: []string{"sandbox new attempt=1", "sandbox old dead", "a " + state + " @old", "i exited 0 @old"},
			want:   []string{"start initContainers[0] i: first start"},
		}})
	}
}
