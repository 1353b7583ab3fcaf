// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/runtime"
)

// amount parses "cpu=100m/200m memory=1Gi/-": request/limit, - for none.
func amount(t testing.TB, text string) v1.ResourceRequirements {
	t.Helper()
	r := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	for word := range strings.FieldsSeq(text) {
		name, pair, _ := strings.Cut(word, "=")
		request, limit, ok := strings.Cut(pair, "/")
		require.True(t, ok, text)
		for _, one := range []struct {
			list v1.ResourceList
			text string
		}{{r.Requests, request}, {r.Limits, limit}} {
			if one.text != "-" {
				one.list[v1.ResourceName(name)] = resource.MustParse(one.text)
			}
		}
	}
	return r
}

// gives sets the wanted resources of containers, and the resource whose change restarts a
// container: "a cpu=1/2 memory=1Gi/1Gi restart=memory".
func gives(t testing.TB, pod *v1.Pod, lines ...string) {
	t.Helper()
	for _, line := range lines {
		name, text, _ := strings.Cut(line, " ")
		text, restart, restarts := strings.Cut(text, " restart=")
		ref, ok := runtime.Find(pod, name)
		if name == "pod" {
			pod.Spec.Resources = new(amount(t, text))
			continue
		}
		require.True(t, ok, line)
		c := ref.Container(pod)
		c.Resources = amount(t, text)
		if restarts {
			c.ResizePolicy = []v1.ContainerResizePolicy{
				{ResourceName: "other", RestartPolicy: v1.RestartContainer},
				{ResourceName: v1.ResourceName(restart), RestartPolicy: v1.RestartContainer},
			}
		}
	}
}

// have returns a PlanInput.Actuated from lines as in gives. A question mark at the end means
// uncertain.
func have(t testing.TB, lines ...string) func(string) (v1.ResourceRequirements, bool) {
	t.Helper()
	records := map[string]v1.ResourceRequirements{}
	unsure := map[string]bool{}
	for _, line := range lines {
		name, text, _ := strings.Cut(line, " ")
		text, unsure[name] = strings.CutSuffix(text, " ?")
		records[name] = amount(t, text)
	}
	return func(name string) (v1.ResourceRequirements, bool) {
		r, ok := records[name]
		return r, ok && !unsure[name]
	}
}

func TestPlanResize(t *testing.T) {
	both := []string{"sandbox s", "a running", "b running"}
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		pod    []string // as podOf
		status []string // as observe
		gives  []string
		have   []string
		want   []string
	}{
		{name: "as wanted", gives: []string{"a cpu=1/2 memory=1Gi/2Gi"}, have: []string{"a cpu=1/2 memory=1Gi/2Gi", "b "}, want: nothing},
		{name: "in another notation", gives: []string{"a cpu=1/2 memory=1Gi/2Gi"},
			have: []string{"a cpu=1000m/2 memory=1024Mi/2Gi", "b "}, want: nothing},
		{name: "other resources do not matter", gives: []string{"a x.io/gpu=1/1"}, have: []string{"a x.io/gpu=2/2", "b "}, want: nothing},
		{name: "each number", gives: []string{"a cpu=1/2 memory=1Gi/2Gi", "b cpu=1/2 memory=1Gi/2Gi"},
			have: []string{"a cpu=1/1500m memory=1Gi/1536Mi", "b cpu=500m/2 memory=512Mi/2Gi"},
			want: []string{"resize memory of a (a-0): memory limit 1536Mi to 2Gi", "resize memory of b (b-0): memory request 512Mi to 1Gi",
				"resize cpu of a (a-0): cpu limit 1500m to 2", "resize cpu of b (b-0): cpu request 500m to 1"}},
		{name: "a request that is not set is the limit", gives: []string{"a cpu=-/2 memory=-/1Gi"},
			have: []string{"a cpu=2/2 memory=1Gi/1Gi", "b "}, want: nothing},
		{name: "a request of zero is none", gives: []string{"a cpu=0/2 memory=0/1Gi"}, have: []string{"a cpu=-/2 memory=-/1Gi", "b "}, want: nothing},
		{name: "the pod's limit stands in", gives: []string{"pod cpu=-/4 memory=-/8Gi", "a cpu=1/2 memory=1Gi/-"},
			have: []string{"a cpu=1/2 memory=1Gi/4Gi", "b cpu=-/4 memory=-/8Gi"}, want: []string{"resize memory of a (a-0): memory limit 4Gi to 8Gi"}},
		{name: "memory first, and what becomes less first", gives: []string{"a cpu=2/2 memory=2Gi/2Gi", "b cpu=1/1 memory=1Gi/1Gi"},
			have: []string{"a cpu=1/1 memory=1Gi/1Gi", "b cpu=2/2 memory=2Gi/2Gi"},
			want: []string{"resize memory of b (b-0): memory limit 2Gi to 1Gi, memory request 2Gi to 1Gi",
				"resize memory of a (a-0): memory limit 1Gi to 2Gi, memory request 1Gi to 2Gi",
				"resize cpu of b (b-0): cpu limit 2 to 1, cpu request 2 to 1", "resize cpu of a (a-0): cpu limit 1 to 2, cpu request 1 to 2"}},
		{name: "where they part, the limit decides", gives: []string{"a cpu=2/3 memory=-/-", "b cpu=1/5"},
			have: []string{"a cpu=1/4", "b cpu=2/4"},
			want: []string{"resize cpu of a (a-0): cpu limit 4 to 3, cpu request 1 to 2", "resize cpu of b (b-0): cpu limit 4 to 5, cpu request 2 to 1"}},
		{name: "a limit where there was none is less", gives: []string{"a memory=1Gi/-", "b memory=1Gi/9Gi"}, have: []string{"a memory=1Gi/2Gi", "b memory=1Gi/-"},
			want: []string{"resize memory of b (b-0): memory limit none to 9Gi", "resize memory of a (a-0): memory limit 2Gi to none"}},
		{name: "restart", gives: []string{"a cpu=2/2 memory=2Gi/2Gi restart=memory", "b cpu=1/1"},
			have: []string{"a cpu=1/1 memory=1Gi/1Gi", "b cpu=2/2"},
			want: []string{"kill a (a-0): is resized: memory limit 1Gi to 2Gi, memory request 1Gi to 2Gi, cpu limit 1 to 2, cpu request 1 to 2, will be restarted",
				"resize cpu of b (b-0): cpu limit 2 to 1, cpu request 2 to 1",
				"start containers[0] a: is resized: memory limit 1Gi to 2Gi, memory request 1Gi to 2Gi, cpu limit 1 to 2, cpu request 1 to 2"}},
		{name: "restart, but for the other resource", gives: []string{"a cpu=2/2 memory=1Gi/1Gi restart=memory"},
			have: []string{"a cpu=1/1 memory=1Gi/1Gi", "b "}, want: []string{"resize cpu of a (a-0): cpu limit 1 to 2, cpu request 1 to 2"}},
		{name: "restart, whatever the pod's policy", policy: v1.RestartPolicyNever, gives: []string{"a cpu=2/2 restart=cpu"}, have: []string{"a cpu=1/1", "b "},
			want: []string{"kill a (a-0): is resized: cpu limit 1 to 2, cpu request 1 to 2, will be restarted",
				"start containers[0] a: is resized: cpu limit 1 to 2, cpu request 1 to 2"}},
		{name: "not certain", gives: []string{"a cpu=1/1 memory=1Gi/1Gi", "b cpu=1/1 memory=1Gi/1Gi restart=memory"},
			have: []string{"a cpu=1/1 memory=1Gi/1Gi ?", "b cpu=1/1 memory=1Gi/1Gi ?"},
			want: []string{"resize memory of a (a-0): not known to be set", "resize cpu of a (a-0): not known to be set", "resize cpu of b (b-0): not known to be set"}},
		{name: "no record counts as nothing", gives: []string{"a cpu=1/1 restart=memory", "b memory=-/1Gi restart=memory"}, have: nil,
			want: []string{"kill b (b-0): is resized: memory limit none to 1Gi, memory request none to 1Gi, will be restarted",
				"resize cpu of a (a-0): cpu limit none to 1, cpu request none to 1",
				"start containers[1] b: is resized: memory limit none to 1Gi, memory request none to 1Gi"}},
		{name: "only what runs", status: []string{"sandbox s", "a created", "b exited 0"}, policy: v1.RestartPolicyOnFailure,
			gives: []string{"a cpu=2/2", "b cpu=2/2"}, want: []string{"start containers[0] a: was made but never started"}},
		{name: "not what is restarted anyway", pod: []string{"main a liveness", "main b"}, status: []string{"sandbox s", "a running liveness=bad", "b running oldhash"},
			gives: []string{"a cpu=2/2", "b cpu=2/2"}, have: []string{"a cpu=1/1", "b cpu=1/1"},
			want: []string{"kill a (a-0): failed liveness probe, will be restarted", "kill b (b-0): definition changed, will be restarted",
				"start containers[0] a: failed liveness probe", "start containers[1] b: definition changed"}},
		{name: "a static pod never", pod: []string{"main a", "static"}, gives: []string{"a cpu=2/2 restart=cpu"}, have: []string{"a cpu=1/1"}, want: nothing},
		{name: "a pod that is deleted never", pod: []string{"main a", "deleted"}, gives: []string{"a cpu=2/2"}, have: []string{"a cpu=1/1"}, want: nothing},
		{name: "a pod that moves to a new sandbox", status: []string{"sandbox s dead", "a running", "b exited 0"},
			pod: []string{"main a", "main b"}, gives: []string{"a cpu=2/2"}, have: []string{"a cpu=1/1"},
			want: []string{"kill pod: the pod's sandbox is not ready", "create sandbox 1: the pod's sandbox is not ready",
				"start containers[0] a: moves to the new sandbox", "start containers[1] b: exited with code 0"}},
		{name: "sidecars before mains", pod: []string{"side s", "side u", "main a"}, status: []string{"sandbox s", "a running", "u running", "s running"},
			gives: []string{"s cpu=2/2", "u cpu=2/2", "a cpu=2/2"}, have: []string{"s cpu=1/1", "u cpu=1/1", "a cpu=1/1"},
			want: []string{"resize cpu of s (s-0): cpu limit 1 to 2, cpu request 1 to 2", "resize cpu of u (u-0): cpu limit 1 to 2, cpu request 1 to 2",
				"resize cpu of a (a-0): cpu limit 1 to 2, cpu request 1 to 2"}},
		{name: "a sidecar that restarts", pod: []string{"side s", "main a"}, status: []string{"sandbox s", "a running", "s running"},
			gives: []string{"s cpu=2/2 restart=cpu"}, have: []string{"s cpu=1/1", "a "},
			want: []string{"kill s (s-0): is resized: cpu limit 1 to 2, cpu request 1 to 2, will be restarted",
				"start initContainers[0] s: is resized: cpu limit 1 to 2, cpu request 1 to 2"}},
		{name: "a sidecar that has not started yet", pod: []string{"side s startup", "main a"}, status: []string{"sandbox s", "s running"},
			gives: []string{"s cpu=2/2"}, have: []string{"s cpu=1/1"}, want: nothing},
		{name: "an init container at work", pod: []string{"init i", "main a"}, status: []string{"sandbox s", "i running"},
			gives: []string{"i cpu=2/2"}, have: []string{"i cpu=1/1"}, want: []string{"resize cpu of i (i-0): cpu limit 1 to 2, cpu request 1 to 2"}},
		{name: "an init container of the sandbox before", pod: []string{"init i", "main a"}, status: []string{"sandbox s", "sandbox old dead", "i exited 0 @old"},
			gives: []string{"i cpu=2/2"}, have: []string{"i cpu=1/1"}, want: []string{"start initContainers[0] i: first start"}},
		{name: "a pod that ends", pod: []string{"side s", "main a"}, policy: v1.RestartPolicyNever, status: []string{"sandbox s", "a exited 0", "s running"},
			gives: []string{"s cpu=2/2"}, have: []string{"s cpu=1/1"}, want: []string{"kill pod: no regular container runs or is to be started"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := c.pod
			if lines == nil {
				lines = []string{"main a", "main b"}
			}
			static := lines[len(lines)-1] == "static"
			if static {
				lines = lines[:len(lines)-1]
			}
			status := c.status
			if status == nil {
				status = both[:1+min(len(lines), 2)]
			}
			pod := podOf(t, c.policy, lines...)
			if static {
				pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
			}
			gives(t, pod, c.gives...)
			in := runtime.PlanInput{Pod: pod, Actuated: have(t, c.have...)}
			in.Status, in.Probes = observe(t, pod, status...)
			got := runtime.Plan(in)
			assert.Equal(t, strings.Join(c.want, "\n")+"\n", got.String())

			in.Actuated = nil
			assert.Empty(t, runtime.Plan(in).Resize, "off")
			for _, k := range runtime.Plan(in).Kill {
				assert.NotEqual(t, runtime.KillResize, k.Reason, "off")
			}
		})
	}
}

// A pod of the API server says so, or says nothing.
func TestPlanResizesPodsOfTheAPIServer(t *testing.T) {
	for source, want := range map[string]int{"": 1, "api": 1, "file": 0, "http": 0} {
		pod := podOf(t, "", "main a")
		if source != "" {
			pod.Annotations = map[string]string{"kubernetes.io/config.source": source}
		}
		gives(t, pod, "a cpu=2/2")
		in := runtime.PlanInput{Pod: pod, Actuated: have(t, "a cpu=1/1")}
		in.Status, _ = observe(t, pod, "sandbox s", "a running")
		assert.Len(t, runtime.Plan(in).Resize, want, source)
	}
}

// A step sets all cpu and memory of the container, and nothing else.
func TestPlanResizeSteps(t *testing.T) {
	pod := podOf(t, "", "main a")
	gives(t, pod, "a cpu=1/2 memory=1Gi/2Gi hugepages-2Mi=4Mi/4Mi")
	in := runtime.PlanInput{Pod: pod, Actuated: have(t, "a cpu=2/3 memory=2Gi/-")}
	in.Status, _ = observe(t, pod, "sandbox s", "a running")
	steps := runtime.Plan(in).Resize
	require.Len(t, steps, 2)
	assert.Equal(t, steps[0].To, steps[1].From)
	for i, want := range []string{"cpu=2/3 memory=2Gi/-", "cpu=2/3 memory=1Gi/2Gi", "cpu=1/2 memory=1Gi/2Gi"} {
		got := []v1.ResourceRequirements{steps[0].From, steps[0].To, steps[1].To}[i]
		assert.True(t, sameAmounts(amount(t, want), got), "%s: %v", want, got)
		assert.NotContains(t, got.Limits, v1.ResourceName("hugepages-2Mi"))
	}
	assert.Equal(t, runtime.Ref{Group: runtime.GroupRegular}, steps[0].Ref)
	assert.False(t, runtime.Plan(in).Empty())
}

// ResizeWaits: a running container without the resources of the spec cannot be restarted, because a
// sidecar ahead of it is not up.
func TestResizeWaitsForASidecar(t *testing.T) {
	for _, c := range []struct {
		name   string
		status []string
		have   []string
		want   bool
	}{
		{"the sidecar is down", []string{"sandbox s", "a running liveness=bad", "s exited 1"}, []string{"s ", "a cpu=1/1"}, true},
		{"the sidecar is down, and nothing is resized", []string{"sandbox s", "a running liveness=bad", "s exited 1"}, []string{"s ", "a cpu=2/2"}, false},
		{"the sidecar is up", []string{"sandbox s", "a running liveness=bad", "s running"}, []string{"s ", "a cpu=1/1"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(t, "", "side s", "main a liveness")
			in := runtime.PlanInput{Pod: pod, Actuated: have(t, c.have...)}
			in.Status, in.Probes = observe(t, pod, c.status...)
			gives(t, pod, "a cpu=2/2")
			assert.Equal(t, c.want, runtime.Plan(in).ResizeWaits)
		})
	}
}
