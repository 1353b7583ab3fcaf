// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

var find, condition, isTrue = podfacts.ContainerStatus, podfacts.Condition, podfacts.IsTrue

// noon is Now in most tests. Observations are earlier.
var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

const (
	always    = v1.RestartPolicyAlways
	onFailure = v1.RestartPolicyOnFailure
	never     = v1.RestartPolicyNever
)

// podOf builds a pod of one container a line: kind (main, init, side, debug),
// name, then startup, readiness, policy=P, rule=Action/In/1,2. The lines
// hostNetwork, deleted and static are about the pod.
func podOf(t testing.TB, policy v1.RestartPolicy, lines ...string) *v1.Pod {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "uid", Generation: 3}}
	pod.Spec.RestartPolicy = policy
	for _, line := range lines {
		words := strings.Fields(line)
		switch words[0] {
		case "hostNetwork":
			pod.Spec.HostNetwork = true
			continue
		case "deleted":
			pod.DeletionTimestamp = &metav1.Time{Time: noon}
			continue
		case "static":
			pod.Annotations = map[string]string{podfacts.AnnotationSource: "file"}
			continue
		}
		c := containerOf(t, words)
		switch words[0] {
		case "main":
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		case "init", "side":
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case "debug":
			pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{
				EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: c.Name, Image: c.Image},
			})
		default:
			require.Fail(t, "unknown kind of container", line)
		}
	}
	return pod
}

func containerOf(t testing.TB, words []string) v1.Container {
	t.Helper()
	c := v1.Container{Name: words[1], Image: "image"}
	if words[0] == "side" {
		c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "startup":
			c.StartupProbe = &v1.Probe{}
		case "readiness":
			c.ReadinessProbe = &v1.Probe{}
		case "policy":
			c.RestartPolicy = new(v1.ContainerRestartPolicy(value))
		case "rule":
			parts := strings.Split(value, "/")
			on := &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOperator(parts[1])}
			for code := range strings.SplitSeq(parts[2], ",") {
				n, err := strconv.ParseInt(code, 10, 32)
				require.NoError(t, err)
				on.Values = append(on.Values, int32(n))
			}
			c.RestartPolicyRules = append(c.RestartPolicyRules,
				v1.ContainerRestartRule{Action: v1.ContainerRestartRuleAction(parts[0]), ExitCodes: on})
		default:
			require.Fail(t, "unknown word", word)
		}
	}
	return c
}

// seen builds an observation, newest first:
//
//	sandbox ID [dead] [ip=A,B]
//	NAME created|running|exited|unknown [CODE] [REASON] [#COUNT] [@SANDBOX] [=N]
//
// Instances are in the first sandbox unless they say otherwise. The ID of one is
// its name and the number of older ones, or N; each was made a minute after the
// one below it.
func seen(t testing.TB, lines ...string) *runtime.PodStatus {
	t.Helper()
	states := map[string]runtime.State{
		"created": runtime.StateCreated, "running": runtime.StateRunning,
		"exited": runtime.StateExited, "unknown": runtime.StateUnknown,
	}
	st := &runtime.PodStatus{UID: "uid"}
	older := map[string]int{}
	for i, line := range lines {
		words := strings.Fields(line)
		if words[0] == "sandbox" {
			sb := runtime.SandboxStatus{ID: runtime.SandboxID(words[1]), Ready: true, NetworkKnown: true, IPs: []string{"10.0.0.1"}}
			for _, word := range words[2:] {
				if ips, ok := strings.CutPrefix(word, "ip="); ok {
					sb.IPs = strings.Split(ips, ",")
				} else {
					sb.Ready = false
				}
			}
			st.Sandboxes = append(st.Sandboxes, sb)
			continue
		}
		state, ok := states[words[1]]
		require.True(t, ok, line)
		c := runtime.ContainerStatus{Name: words[0], State: state, Image: "image", ImageRef: "image@sha256:1"}
		if len(st.Sandboxes) > 0 {
			c.Sandbox = st.Sandboxes[0].ID
		}
		c.CreatedAt = noon.Add(-time.Duration(i+1) * time.Minute)
		if state != runtime.StateCreated {
			c.StartedAt = c.CreatedAt.Add(time.Second)
		}
		if state == runtime.StateExited {
			c.FinishedAt = c.CreatedAt.Add(30 * time.Second)
		}
		for _, word := range words[2:] {
			n, err := strconv.ParseInt(strings.TrimPrefix(word, "#"), 10, 32)
			switch {
			case word[0] == '#' && err == nil:
				c.RestartCount = int32(n)
			case err == nil:
				c.ExitCode = int32(n)
			case word[0] == '=':
				c.ID.ID = c.Name + "-" + word[1:]
			case word[0] == '@':
				c.Sandbox = runtime.SandboxID(word[1:])
			default:
				c.Reason = word
			}
		}
		st.Containers = append(st.Containers, c)
	}
	for i := len(st.Containers) - 1; i >= 0; i-- {
		c := &st.Containers[i]
		c.ID = runtime.ContainerID{Runtime: "test", ID: cmp.Or(c.ID.ID, fmt.Sprintf("%s-%d", c.Name, older[c.Name]))}
		older[c.Name]++
	}
	return st
}

// generate is Generate at noon.
func generate(pod *v1.Pod, observed *runtime.PodStatus) v1.PodStatus {
	return Generate(Input{Pod: pod, Observed: observed, Now: noon})
}

// assertSame compares two statuses and prints where they differ.
func assertSame(t testing.TB, want, got v1.PodStatus, what string) {
	t.Helper()
	if diff := firstDifference(want, got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

// firstDifference is "" if the two are the same.
func firstDifference(want, got v1.PodStatus) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	a, b := lines(want), lines(got)
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from := max(0, i-3)
	return fmt.Sprintf("the statuses differ in line %d:\nwant %s\ngot  %s", i,
		strings.Join(a[from:min(i+5, len(a))], "\n"), strings.Join(b[from:min(i+5, len(b))], "\n"))
}

func lines(st v1.PodStatus) []string {
	text, err := json.MarshalIndent(st, "", " ")
	return strings.Split(fmt.Sprint(string(text), err), "\n")
}

// show prints a container status in a line, with the fields of the tables below.
func show(s *v1.ContainerStatus) string {
	if s == nil {
		return "none"
	}
	text := showState(s.State)
	if s.RestartCount != 0 {
		text += fmt.Sprintf(" #%d", s.RestartCount)
	}
	if s.LastTerminationState != (v1.ContainerState{}) {
		text += ", last " + showState(s.LastTerminationState)
	}
	return text
}

func showState(s v1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Waiting != nil:
		return strings.TrimSpace("waiting " + s.Waiting.Reason)
	case s.Terminated != nil:
		_, id, _ := strings.Cut(s.Terminated.ContainerID, "://")
		return strings.TrimSpace(fmt.Sprintf("terminated %s %d %s", s.Terminated.Reason, s.Terminated.ExitCode, id))
	default:
		return "empty"
	}
}

// statusOf finds a container in any of the three lists.
func statusOf(st *v1.PodStatus, name string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{st.ContainerStatuses, st.InitContainerStatuses, st.EphemeralContainerStatuses} {
		if s := find(list, name); s != nil {
			return s
		}
	}
	return nil
}
