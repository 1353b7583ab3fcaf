// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

func TestRestartAllTriggered(t *testing.T) {
	const rule = " policy=Never rule=RestartAllContainers/In/42"
	for _, c := range []struct {
		name   string
		pod    []string
		status []string
		want   bool
	}{
		{"regular, code matches", []string{"main a" + rule}, []string{"a exited 42"}, true},
		{"regular, another code", []string{"main a" + rule}, []string{"a exited 41"}, false},
		{"init", []string{"init i" + rule, "main a"}, []string{"i exited 42"}, true},
		{"sidecar", []string{"side s rule=RestartAllContainers/NotIn/0", "main a"}, []string{"s exited 1"}, true},
		{"init killed for lack of memory", []string{"init i policy=Never rule=RestartAllContainers/In/137", "main a"},
			[]string{"i exited 0 OOMKilled"}, true},
		{"an older instance", []string{"main a" + rule}, []string{"a running", "a exited 42"}, true},
		{"an earlier rule that matches hides it", []string{"main a policy=Never rule=Restart/In/42 rule=RestartAllContainers/In/42"},
			[]string{"a exited 42"}, false},
		{"not exited", []string{"main a" + rule}, []string{"a unknown 42"}, false},
		{"no policy of its own: rules are void", []string{"main a rule=RestartAllContainers/In/42"}, []string{"a exited 42"}, false},
		{"not in the spec", []string{"main a" + rule}, []string{"b exited 42"}, false},
		{"deleted", []string{"deleted", "main a" + rule}, []string{"a exited 42"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(t, "", c.pod...)
			status, _ := observe(t, pod, append([]string{"sandbox t"}, c.status...)...)
			assert.Equal(t, c.want, runtime.RestartAllTriggered(pod, status))
			status.Sandboxes[0].Ready = false
			assert.False(t, runtime.RestartAllTriggered(pod, status), "in a sandbox that is lost")
			status.Sandboxes = []runtime.SandboxStatus{{ID: "u", Ready: true}}
			assert.False(t, runtime.RestartAllTriggered(pod, status), "in an earlier sandbox")
		})
	}
	assert.False(t, runtime.RestartAllTriggered(podOf(t, "", "main a"+rule), nil))
}

func TestPlanRestartAll(t *testing.T) {
	const rule = " policy=Never rule=RestartAllContainers/In/42"
	const why = "all containers of the pod are restarted"
	for _, c := range []planCase{
		{name: "targets before sources, regular before init, all instances",
			pod: []string{"init i", "side s" + rule + " policy=Always", "main a" + rule, "main b", "debug d"},
			status: []string{"sandbox s", "d running", "b running", "b exited 1", "a exited 42", "a exited 7",
				"s exited 42", "i exited 0", "gone running"},
			want: []string{"remove a (a-0): " + why, "remove b (b-0): " + why, "remove b (b-1): " + why,
				"remove i (i-0): " + why, "remove a (a-1): " + why, "remove s (s-0): " + why}},
		{name: "nothing is started, not even what was never made",
			pod: []string{"main a" + rule, "main b"}, status: []string{"sandbox s", "a exited 42"},
			want: []string{"remove a (a-0): " + why}},
		{name: "a sandbox to be replaced comes first, and nothing is started in it yet",
			pod: []string{"main a" + rule, "main b"}, status: []string{"sandbox s noip", "b exited 1", "a exited 42"},
			want: []string{"kill pod: the pod's sandbox has no IP address", "create sandbox 1: the pod's sandbox has no IP address"}},
		{name: "even in a Never pod, which would stay down otherwise", policy: v1.RestartPolicyNever,
			pod: []string{"main a" + rule, "main b"}, status: []string{"sandbox s noip", "b exited 1", "a exited 42"},
			want: []string{"kill pod: the pod's sandbox has no IP address", "create sandbox 1: the pod's sandbox has no IP address"}},
		{name: "a lost sandbox takes all containers along", pod: []string{"main a" + rule, "main b"},
			status: []string{"sandbox t attempt=1", "sandbox s dead", "b exited 1 @s", "a exited 42 @s"},
			want:   []string{"start containers[0] a: exited with code 42", "start containers[1] b: exited with code 1"}},
		{name: "once all are gone the pod starts over", pod: []string{"init i", "main a" + rule}, status: []string{"sandbox s"},
			want: []string{"start initContainers[0] i: first start"}},
		{name: "with nothing observed", pod: []string{"main a" + rule},
			want: []string{"kill pod: the pod has no sandbox", "create sandbox 0: the pod has no sandbox", "start containers[0] a: first start"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := runtime.Plan(c.input(t))
			assert.Equal(t, strings.Join(c.want, "\n")+"\n", got.String())
			for _, k := range got.Kill {
				assert.True(t, k.Remove)
				assert.Equal(t, runtime.KillRestartAll, k.Reason)
			}
		})
	}
}

// TestPlanRestartAllResumes: after a crash midway the restart is still triggered, because the
// triggering instances are removed last.
func TestPlanRestartAllResumes(t *testing.T) {
	c := planCase{
		pod:    []string{"init i", "main a policy=Never rule=RestartAllContainers/In/42", "main b"},
		status: []string{"sandbox s", "b running", "a exited 42", "i exited 0"},
	}
	in := c.input(t)
	for left := len(in.Status.Containers); left > 0; left-- {
		got := runtime.Plan(in)
		assert.Len(t, got.Kill, left)
		assert.Empty(t, got.Start)
		m := model{pod: in.Pod, status: in.Status}
		m.kill(got.Kill[0])
	}
	assert.False(t, runtime.RestartAllTriggered(in.Pod, in.Status))
}
