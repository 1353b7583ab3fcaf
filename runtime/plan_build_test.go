// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

// planCase is one row of a decision table. Pod and status are written as words,
// see podOf and observe; want is the plan as Actions.String prints it.
type planCase struct {
	name   string
	policy v1.RestartPolicy // empty: Always
	pod    []string
	status []string
	want   []string

	finished string // containers that are known to have run for good
}

func (c planCase) input(t *testing.T) runtime.PlanInput {
	t.Helper()
	in := runtime.PlanInput{Pod: podOf(t, c.policy, c.pod...)}
	in.Status, in.Probes = observe(t, in.Pod, c.status...)
	in.Finished = func(name string, _ *runtime.ContainerStatus) bool { return strings.Contains(c.finished, name) }
	return in
}

func runPlanCases(t *testing.T, cases []planCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := runtime.Plan(c.input(t))
			assert.Equal(t, strings.Join(c.want, "\n")+"\n", got.String())
		})
	}
}

// nothing is the plan that does nothing.
var nothing = []string{"nothing"}

// podOf builds a pod. Each line is one container: its kind (main, init, side,
// debug), its name, then options: liveness, startup, policy=Never,
// rule=Restart/In/1,2. The lines hostNetwork and deleted are about the pod.
func podOf(t testing.TB, policy v1.RestartPolicy, lines ...string) *v1.Pod {
	t.Helper()
	if policy == "" {
		policy = v1.RestartPolicyAlways
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "uid"}}
	pod.Spec.RestartPolicy = policy
	for _, line := range lines {
		words := strings.Fields(line)
		switch kind := words[0]; kind {
		case "hostNetwork":
			pod.Spec.HostNetwork = true
		case "deleted":
			pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		case "debug":
			pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{
				EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: words[1], Image: "debug"},
			})
		default:
			c := containerOf(t, words[1], words[2:])
			switch kind {
			case "main":
				pod.Spec.Containers = append(pod.Spec.Containers, c)
			case "side":
				if c.RestartPolicy == nil {
					c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
				}
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
			case "init":
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
			default:
				require.Fail(t, "unknown kind of container", line)
			}
		}
	}
	return pod
}

func containerOf(t testing.TB, name string, options []string) v1.Container {
	t.Helper()
	c := v1.Container{Name: name, Image: "image"}
	for _, option := range options {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "liveness":
			c.LivenessProbe = &v1.Probe{}
		case "startup":
			c.StartupProbe = &v1.Probe{}
		case "policy":
			c.RestartPolicy = new(v1.ContainerRestartPolicy(value))
		case "rule":
			c.RestartPolicyRules = append(c.RestartPolicyRules, ruleOf(t, value))
		default:
			require.Fail(t, "unknown option", option)
		}
	}
	return c
}

// ruleOf reads action/operator/code,code.
func ruleOf(t testing.TB, text string) v1.ContainerRestartRule {
	t.Helper()
	parts := strings.Split(text, "/")
	require.Len(t, parts, 3, text)
	on := &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOperator(parts[1])}
	for code := range strings.SplitSeq(parts[2], ",") {
		on.Values = append(on.Values, number(t, code))
	}
	return v1.ContainerRestartRule{Action: v1.ContainerRestartRuleAction(parts[0]), ExitCodes: on}
}

func number(t testing.TB, s string) int32 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 32)
	require.NoError(t, err)
	return int32(n)
}

// observe builds what a backend saw, newest first.
//
//	sandbox ID [dead] [attempt=N] [host] [noip] [nonet]
//	NAME created|running|exited|unknown [CODE] [REASON] [@SANDBOX] [oldhash]
//	     [liveness=ok|bad] [startup=ok|bad]
//
// A container is in the first sandbox unless it says otherwise; a probe without
// a word has no result. IDs are the name and the number of older instances.
func observe(t testing.TB, pod *v1.Pod, lines ...string) (*runtime.PodStatus, probeResults) {
	t.Helper()
	st := &runtime.PodStatus{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
	var seen []verdicts // of st.Containers
	clock := time.Unix(10_000, 0)
	for _, line := range lines {
		words := strings.Fields(line)
		clock = clock.Add(-time.Minute)
		if words[0] == "sandbox" {
			sb := runtime.SandboxStatus{ID: runtime.SandboxID(words[1]), Ready: true, CreatedAt: clock}
			sb.NetworkKnown, sb.IPs = true, []string{"10.0.0.1"}
			for _, word := range words[2:] {
				key, value, _ := strings.Cut(word, "=")
				switch key {
				case "dead":
					sb.Ready = false
				case "attempt":
					sb.Attempt = uint32(number(t, value))
				case "host":
					sb.HostNetwork = true
				case "noip":
					sb.IPs = nil
				case "nonet":
					sb.NetworkKnown, sb.IPs = false, nil
				default:
					require.Fail(t, "unknown word", line)
				}
			}
			st.Sandboxes = append(st.Sandboxes, sb)
			continue
		}
		c, v := instanceOf(t, pod, words)
		c.CreatedAt = clock
		st.Containers, seen = append(st.Containers, c), append(seen, v)
	}
	finishInstances(st)
	probes := probeResults{}
	for i := range st.Containers {
		probes[st.Containers[i].ID.String()] = seen[i]
	}
	return st, probes
}

func instanceOf(t testing.TB, pod *v1.Pod, words []string) (runtime.ContainerStatus, verdicts) {
	t.Helper()
	states := map[string]runtime.State{
		"created": runtime.StateCreated, "running": runtime.StateRunning,
		"exited": runtime.StateExited, "unknown": runtime.StateUnknown,
	}
	state, ok := states[words[1]]
	require.True(t, ok, words)
	c := runtime.ContainerStatus{Name: words[0], State: state}
	if ref, found := runtime.Find(pod, c.Name); found {
		c.Hash = containermeta.Hash(ref.Container(pod))
	}
	var v verdicts
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		verdict := map[string]verdict{"ok": success, "bad": failure}[value]
		switch {
		case key == "liveness":
			v.liveness = verdict
		case key == "startup":
			v.startup = verdict
		case key == "oldhash":
			c.Hash = "old"
		case word[0] == '@':
			c.Sandbox = runtime.SandboxID(word[1:])
		case word[0] >= '0' && word[0] <= '9':
			c.ExitCode = number(t, word)
		default:
			c.Reason = word
		}
	}
	return c, v
}

// finishInstances fills in sandboxes and IDs.
func finishInstances(st *runtime.PodStatus) {
	older := map[string]int{}
	for i := len(st.Containers) - 1; i >= 0; i-- {
		c := &st.Containers[i]
		c.ID = runtime.ContainerID{Runtime: "test", ID: fmt.Sprintf("%s-%d", c.Name, older[c.Name])}
		older[c.Name]++
		if c.Sandbox == "" && len(st.Sandboxes) > 0 {
			c.Sandbox = st.Sandboxes[0].ID
		}
	}
}

// verdict is the result of a probe.
type verdict uint8

const (
	noVerdict verdict = iota
	success
	failure
)

// answer returns v as the methods of runtime.Probes do.
func (v verdict) answer() (ok, known bool) { return v == success, v != noVerdict }

// verdictOf is the inverse of answer.
func verdictOf(ok, known bool) verdict {
	switch {
	case !known:
		return noVerdict
	case ok:
		return success
	}
	return failure
}

// probeResults are the verdicts on each instance, by the text of its ID.
type probeResults map[string]verdicts

type verdicts struct{ liveness, startup verdict }

func (p probeResults) Alive(id string) (ok, known bool)   { return p[id].liveness.answer() }
func (p probeResults) Started(id string) (ok, known bool) { return p[id].startup.answer() }
