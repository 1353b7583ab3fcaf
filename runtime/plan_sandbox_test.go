// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// TestCheckSandbox has one row for each line of the table: S1 to S6.
func TestCheckSandbox(t *testing.T) {
	type check = runtime.SandboxCheck
	for _, c := range []struct {
		name   string
		pod    []string
		status []string
		want   check // without Message
	}{
		{"S1 no sandbox", nil, nil,
			check{Changed: true, Reason: runtime.SandboxMissing}},
		{"S2 two ready", nil, []string{"sandbox s2 attempt=4", "sandbox s1 attempt=3"},
			check{Changed: true, ID: "s2", Attempt: 5, Reason: runtime.SandboxesConflict}},
		{"S2 two ready, neither the newest", nil, []string{"sandbox s3 dead attempt=5", "sandbox s2 attempt=4", "sandbox s1 attempt=3"},
			check{Changed: true, ID: "s3", Attempt: 6, Reason: runtime.SandboxesConflict}},
		{"S3 newest not ready", nil, []string{"sandbox s2 dead attempt=1", "sandbox s1"},
			check{Changed: true, ID: "s2", Attempt: 2, Reason: runtime.SandboxNotReady}},
		{"S4 the host's network wanted", []string{"hostNetwork"}, []string{"sandbox s1"},
			check{Changed: true, Attempt: 1, Reason: runtime.SandboxNetworkChanged}},
		{"S4 own network wanted", nil, []string{"sandbox s1 host"},
			check{Changed: true, Attempt: 1, Reason: runtime.SandboxNetworkChanged}},
		{"S4 before S5", nil, []string{"sandbox s1 host noip"},
			check{Changed: true, Attempt: 1, Reason: runtime.SandboxNetworkChanged}},
		{"S5 no address", nil, []string{"sandbox s1 noip attempt=7"},
			check{Changed: true, ID: "s1", Attempt: 8, Reason: runtime.SandboxWithoutIP}},
		{"S5 not on the host's network", []string{"hostNetwork"}, []string{"sandbox s1 host noip"},
			check{ID: "s1"}},
		{"S5 not where no network is known", nil, []string{"sandbox s1 nonet"},
			check{ID: "s1"}},
		{"S6 as wanted", nil, []string{"sandbox s2 attempt=1", "sandbox s1 dead"},
			check{ID: "s2", Attempt: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(t, "", c.pod...)
			status, _ := observe(t, pod, c.status...)
			got := runtime.CheckSandbox(pod, status)
			assert.Equal(t, got.Changed, got.Message != "", "a change has a message")
			got.Message = ""
			assert.Equal(t, c.want, got)
		})
	}
	t.Run("S1 nothing observed", func(t *testing.T) {
		assert.True(t, runtime.CheckSandbox(podOf(t, ""), nil).Changed)
	})
	t.Run("S5 an empty address", func(t *testing.T) {
		pod := podOf(t, "")
		status, _ := observe(t, pod, "sandbox s1")
		status.Sandboxes[0].IPs = []string{""}
		assert.Equal(t, runtime.SandboxWithoutIP, runtime.CheckSandbox(pod, status).Reason)
	})
}

// TestPlanReplacesSandbox is step 3 of the top-level order.
func TestPlanReplacesSandbox(t *testing.T) {
	const never, onFailure = v1.RestartPolicyNever, v1.RestartPolicyOnFailure
	runPlanCases(t, []planCase{
		{name: "S1 a new pod", pod: []string{"main a", "main b"},
			want: []string{"kill pod: the pod has no sandbox", "create sandbox 0: the pod has no sandbox",
				"start containers[0] a: first start", "start containers[1] b: first start"}},
		{name: "3d init containers go first", pod: []string{"init i", "side s", "main a"},
			want: []string{"kill pod: the pod has no sandbox", "create sandbox 0: the pod has no sandbox",
				"start initContainers[0] i: init starts over in a new sandbox"}},
		{name: "3d init starts over even if it was complete", pod: []string{"init i", "init j", "main a"},
			status: []string{"sandbox s dead", "a exited 0", "j exited 0", "i exited 0"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start initContainers[0] i: init starts over in a new sandbox"}},
		{name: "3a a Never pod that ran stays down", policy: never, pod: []string{"main a", "main b"},
			status: []string{"sandbox s dead", "b exited 0", "a exited 1"}, want: nothing},
		{name: "3a what is left of a Never pod is stopped", policy: never, pod: []string{"main a", "main b"},
			status: []string{"sandbox s dead", "b running", "a exited 1"},
			want:   []string{"kill pod: the pod's sandbox is not ready; all containers have run for good"}},
		{name: "3a what may have run does not run again", policy: never, pod: []string{"main a"},
			status: []string{"sandbox s dead", "a unknown 0"},
			want:   []string{"kill pod: the pod's sandbox is not ready; all containers have run for good"}},
		{name: "3a of a Never pod what never ran does, alone", policy: never, pod: []string{"main a", "main b", "main c"},
			status: []string{"sandbox s noip", "c created", "a running"},
			want: []string{"kill pod: the pod's sandbox has no IP address", "create sandbox 1: the pod's sandbox has no IP address",
				"start containers[1] b: first start", "start containers[2] c: was made but never started"}},
		{name: "3a whatever ran that the pod does not have any more", policy: never, pod: []string{"main a"},
			status: []string{"sandbox s dead", "i exited 0"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start containers[0] a: first start"}},
		{name: "3a a Never pod of which nothing ran gets a sandbox", policy: never, pod: []string{"main a"},
			status: []string{"sandbox s dead attempt=2"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 3: the pod's sandbox is not ready",
				"start containers[0] a: first start"}},
		{name: "3a nor one of which a container was made and never started", policy: never, pod: []string{"side s", "main a"},
			status: []string{"sandbox s dead", "a created", "s exited 255"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start initContainers[0] s: init starts over in a new sandbox"}},
		{name: "3a nor one that had not come past init", policy: never, pod: []string{"init i", "main a"},
			status: []string{"sandbox s dead", "i exited 0"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start initContainers[0] i: init starts over in a new sandbox"}},
		{name: "3b what ran once and succeeded is left out", policy: onFailure, pod: []string{"main a", "main b", "main c"},
			status: []string{"sandbox s dead", "c running", "b exited 3", "a exited 0"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start containers[1] b: exited with code 3", "start containers[2] c: moves to the new sandbox"}},
		{name: "3b a container's own OnFailure counts", pod: []string{"main a policy=OnFailure", "main b"},
			status: []string{"sandbox s dead", "b exited 0", "a exited 0"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start containers[1] b: exited with code 0"}},
		{name: "3b an unknown state is not a success", policy: onFailure, pod: []string{"main a"},
			status: []string{"sandbox s dead", "a unknown 0"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start containers[0] a: is in an unknown state"}},
		{name: "3c a done pod", policy: onFailure, pod: []string{"init i", "main a", "main b"},
			status: []string{"sandbox s dead", "b exited 0", "a exited 0"}, want: nothing},
		{name: "3c the sidecar of a done pod is stopped", policy: onFailure, pod: []string{"side s", "main a"},
			status: []string{"sandbox s dead", "a exited 0", "s running"},
			want:   []string{"kill pod: the pod's sandbox is not ready; all containers have run for good"}},
		{name: "3e no ephemeral container in this plan (Q5)", pod: []string{"main a", "debug d"},
			want: []string{"kill pod: the pod has no sandbox", "create sandbox 0: the pod has no sandbox",
				"start containers[0] a: first start"}},
		{name: "a pod without regular containers gets no sandbox", pod: []string{"init i"}, want: nothing},
	})
}

// TestPlanSandboxAsksContainersForTheirPolicy decides quirk Q1: the kubelet asks
// only the pod for its policy when the sandbox is gone.
func TestPlanSandboxAsksContainersForTheirPolicy(t *testing.T) {
	const never = v1.RestartPolicyNever
	runPlanCases(t, []planCase{
		{name: "Q1 a container's own Always brings a Never pod back", policy: never, pod: []string{"main a", "main b policy=Always"},
			status: []string{"sandbox s dead", "b exited 0", "a exited 0"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start containers[1] b: exited with code 0"}},
		{name: "Q1 a rule does too", policy: never, pod: []string{"main a policy=Never rule=Restart/In/42"},
			status: []string{"sandbox s dead", "a exited 42"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start containers[0] a: exited with code 42"}},
		{name: "Q1 a rule that does not match does not", policy: never, pod: []string{"main a policy=Never rule=Restart/In/42"},
			status: []string{"sandbox s dead", "a exited 41"}, want: nothing},
		{name: "Q1 a sidecar does not: it is there for the others", policy: never, pod: []string{"side s", "main a"},
			status: []string{"sandbox s dead", "a exited 0", "s exited 0"}, want: nothing},
		{name: "Q1 a container's own Never holds in an Always pod", pod: []string{"main a policy=Never", "main b"},
			status: []string{"sandbox s dead", "b exited 1", "a exited 1"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start containers[1] b: exited with code 1"}},
		{name: "Q1 an init container's own Never ends the pod", pod: []string{"init i policy=Never", "main a"},
			status: []string{"sandbox s dead", "i exited 1"}, want: nothing},
		{name: "a finished Never pod whose sandbox record is gone is not run again", policy: never, pod: []string{"main a"},
			status: []string{"a exited 0"}, want: nothing},
	})
}
