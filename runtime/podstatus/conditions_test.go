// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podconditions"
	"github.com/keelson-dev/keelson/runtime"
)

// TestConditions has one row for each answer of each condition.
func TestConditions(t *testing.T) {
	const (
		start   = v1.PodReadyToStartContainers
		inited  = v1.PodInitialized
		ready   = v1.ContainersReady
		restart = v1.AllContainersRestarting
		rule    = " policy=Never rule=RestartAllContainers/In/42"
	)
	for _, c := range []struct {
		name     string
		policy   v1.RestartPolicy
		pod      []string
		observed []string
		kind     v1.PodConditionType
		want     string // status, reason, message
	}{
		{"no sandbox", always, []string{"main a"}, nil, start, "False SandboxMissing the pod has no sandbox"},
		{"sandbox not ready", always, []string{"main a"}, []string{"sandbox s dead"}, start, "False SandboxNotReady the pod's sandbox is not ready"},
		{"sandbox ready", always, []string{"main a"}, []string{"sandbox s"}, start, "True"},

		{"no init containers", always, []string{"main a"}, nil, inited, "True"},
		{"init incomplete", always, []string{"init i", "init j", "main a"}, []string{"sandbox s", "i exited 0"}, inited,
			"False ContainersNotInitialized containers with incomplete status: [j]"},
		{"init failed", always, []string{"init i", "main a"}, []string{"sandbox s", "i exited 1"}, inited,
			"False ContainersNotInitialized containers with incomplete status: [i]"},
		{"init complete", always, []string{"init i", "main a"}, []string{"sandbox s", "i exited 0"}, inited, "True"},
		{"sidecar not started", always, []string{"side s startup", "main a"}, []string{"sandbox s", "s running"}, inited,
			"False ContainersNotInitialized containers with incomplete status: [s]"},
		{"sidecar started", always, []string{"side s", "main a"}, []string{"sandbox s", "s running"}, inited, "True"},
		{"sidecar down once the mains ran", always, []string{"side s", "main a"}, []string{"sandbox s", "a running", "s exited 1"}, inited, "True"},
		{"init failed once the mains ran", always, []string{"init i", "main a"}, []string{"sandbox s", "a exited 1", "i exited 1"}, inited, "True"},
		{"succeeded", never, []string{"init i", "main a"}, []string{"sandbox s", "a exited 0", "i exited 0"}, inited, "True PodCompleted"},

		{"all ready", always, []string{"side s", "main a"}, []string{"sandbox s", "a running", "s running"}, ready, "True"},
		{"not ready", always, []string{"side s", "main b", "main a"}, []string{"sandbox s", "b running", "a exited 1", "s exited 1"}, ready,
			"False ContainersNotReady containers with unready status: [s a]"},
		{"plain init does not count", always, []string{"init i", "main a"}, []string{"sandbox s", "a running", "i exited 1"}, ready, "True"},
		{"succeeded", never, []string{"main a"}, []string{"sandbox s", "a exited 0"}, ready, "False PodCompleted"},
		{"failed", never, []string{"main a"}, []string{"sandbox s", "a exited 1"}, ready, "False PodFailed"},

		{"scheduled", always, []string{"main a"}, nil, v1.PodScheduled, "True"},

		{"no rule, no condition", always, []string{"main a policy=Never rule=Restart/In/42"}, []string{"sandbox s", "a exited 42"}, restart, "absent"},
		{"a rule, not now", always, []string{"main a" + rule}, []string{"sandbox s", "a running"}, restart, "False"},
		{"a rule, now", always, []string{"main a" + rule}, []string{"sandbox s", "a exited 42"}, restart,
			"True RestartAllContainersStarted container exited with restart policy rule"},
		{"a rule, deleted", always, []string{"main a" + rule, "deleted"}, []string{"sandbox s", "a exited 42"}, restart, "False"},
		{"a rule, succeeded", never, []string{"main a" + rule}, []string{"sandbox s", "a exited 0"}, restart, "False PodCompleted"},
		{"a rule, failed", never, []string{"main a" + rule}, []string{"sandbox s", "a exited 1"}, restart, "False PodFailed"},
	} {
		t.Run(string(c.kind)+" "+c.name, func(t *testing.T) {
			out := Generate(Input{Pod: podOf(t, c.policy, c.pod...), Observed: seen(t, c.observed...), Now: noon,
				Started: func(runtime.ContainerID) bool { return false }})
			assert.Equal(t, c.want, showCondition(condition(out.Conditions, c.kind)))
			if c.kind == ready {
				assert.Equal(t, c.want, showCondition(condition(out.Conditions, v1.PodReady)), "Ready follows it")
			}
		})
	}
}

func showCondition(c *v1.PodCondition) string {
	if c == nil {
		return "absent"
	}
	text := string(c.Status)
	for _, word := range []string{c.Reason, c.Message} {
		if word != "" {
			text += " " + word
		}
	}
	return text
}

// TestConditionsOfUnknownStatuses has the rows that Generate never reaches, because it makes a
// status for every container.
func TestConditionsOfUnknownStatuses(t *testing.T) {
	g := newGenerator(Input{Pod: podOf(t, always, "init i", "side s", "main a", "main b"), Now: noon})
	none := podconditions.ContainersReady(&g.Pod.Spec, &v1.PodStatus{})
	assert.Equal(t, "False UnknownContainerStatuses", showCondition(&none))
	none = g.initializedCondition(&v1.PodStatus{})
	assert.Equal(t, "False UnknownContainerStatuses", showCondition(&none))

	some := &v1.PodStatus{
		InitContainerStatuses: []v1.ContainerStatus{{Name: "s"}},
		ContainerStatuses:     []v1.ContainerStatus{{Name: "b", Ready: true}},
	}
	got := podconditions.ContainersReady(&g.Pod.Spec, some)
	assert.Equal(t, "False ContainersNotReady containers with unknown status: [a], containers with unready status: [s]", showCondition(&got))
	got = g.initializedCondition(some)
	assert.Equal(t, "False ContainersNotInitialized containers with unknown status: [i], containers with incomplete status: [s]", showCondition(&got))

	some.Phase = v1.PodSucceeded
	got = podconditions.ContainersReady(&g.Pod.Spec, some)
	assert.Equal(t, podconditions.ReasonContainersNotReady, got.Reason, "completed only if all are known")
	got = g.initializedCondition(some)
	assert.Equal(t, podconditions.ReasonContainersNotInitialized, got.Reason, "completed only if all are known")
}

// TestInitializedPastAContainer: an init container without a record is complete if a later
// container was made.
func TestInitializedPastAContainer(t *testing.T) {
	pod := podOf(t, always, "init i", "init j", "main a")
	previous := generate(pod, seen(t, "sandbox s", "i exited 0"))
	out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "j running"), Previous: &previous, Now: noon})
	assert.Equal(t, "False ContainersNotInitialized containers with incomplete status: [j]", showCondition(condition(out.Conditions, v1.PodInitialized)))
}

// TestInitializedStaysWhileRestartIsDue: a sidecar whose exit restarts all
// containers does not take initialization back.
func TestInitializedStaysWhileRestartIsDue(t *testing.T) {
	pod := podOf(t, always, "side s rule=RestartAllContainers/In/42", "main a")
	previous := generate(pod, seen(t, "sandbox s", "s running"))
	require.True(t, isTrue(previous.Conditions, v1.PodInitialized))
	for code, want := range map[string]bool{"42": true, "41": false} {
		out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "s exited "+code), Previous: &previous, Now: noon})
		assert.Equal(t, want, isTrue(out.Conditions, v1.PodInitialized), code)
	}
}

func TestReadinessGates(t *testing.T) {
	for _, c := range []struct {
		name   string
		others []v1.PodCondition
		want   string
	}{
		{"missing", nil, `False ReadinessGatesNotReady corresponding condition of pod readiness gate "x.io/a" does not exist., ` +
			`corresponding condition of pod readiness gate "x.io/b" does not exist.`},
		{"closed", []v1.PodCondition{{Type: "x.io/a", Status: "True"}, {Type: "x.io/b", Status: "False"}},
			`False ReadinessGatesNotReady the status of pod readiness gate "x.io/b" is not "True", but False`},
		{"open", []v1.PodCondition{{Type: "x.io/a", Status: "True"}, {Type: "x.io/b", Status: "True"}}, "True"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(t, always, "main a")
			pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "x.io/a"}, {ConditionType: "x.io/b"}}
			pod.Status.Conditions = c.others
			out := generate(pod, seen(t, "sandbox s", "a running"))
			assert.Equal(t, c.want, showCondition(condition(out.Conditions, v1.PodReady)))
			assert.True(t, isTrue(out.Conditions, v1.ContainersReady), "gates are of the pod")

			out = generate(pod, seen(t, "sandbox s", "a exited 1"))
			assert.Equal(t, "False ContainersNotReady containers with unready status: [a]", showCondition(condition(out.Conditions, v1.PodReady)))
		})
	}
}

func TestConditionsOfOthersAreKept(t *testing.T) {
	pod := podOf(t, always, "main a")
	foreign := v1.PodCondition{Type: "x.io/a", Status: "False", Reason: "Because", LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}
	target := v1.PodCondition{Type: v1.DisruptionTarget, Status: "True", Reason: "PreemptionByKubelet"}
	pod.Status.Conditions = []v1.PodCondition{foreign, {Type: v1.PodReady, Status: "True", Reason: "Stale"}}
	previous := v1.PodStatus{Conditions: []v1.PodCondition{{Type: "x.io/old", Status: "True"}, target}}
	out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s"), Previous: &previous, Now: noon})
	assert.Equal(t, foreign, *condition(out.Conditions, "x.io/a"))
	assert.Equal(t, target, *condition(out.Conditions, v1.DisruptionTarget))
	assert.Nil(t, condition(out.Conditions, "x.io/old"), "the API server no longer has it")
	assert.Equal(t, "ContainersNotReady", condition(out.Conditions, v1.PodReady).Reason)

	var types []v1.PodConditionType
	for _, c := range out.Conditions {
		types = append(types, c.Type)
	}
	assert.Equal(t, []v1.PodConditionType{"x.io/a", v1.DisruptionTarget, v1.PodReadyToStartContainers, v1.PodInitialized,
		v1.PodReady, v1.ContainersReady, v1.PodScheduled}, types)
}

// DisruptionTarget is there once, though the API server and the previous status both have
// it: the type is the merge key of a patch.
func TestDisruptionTargetIsThereOnce(t *testing.T) {
	pod := podOf(t, always, "main a")
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: "True", Reason: "Old"}, {Type: "x.io/a", Status: "True"}}
	previous := v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: "True", Reason: "New"}}}
	out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s"), Previous: &previous, Now: noon})
	var reasons []string
	for _, c := range out.Conditions {
		if c.Type == v1.DisruptionTarget {
			reasons = append(reasons, c.Reason)
		}
	}
	assert.Equal(t, []string{"New"}, reasons)
}

// A new agent whose previous status has no times keeps the times of the API server, except for
// resizes.
func TestTransitionTimesOfTheAPIServerAreKept(t *testing.T) {
	pod := podOf(t, always, "main a")
	before := metav1.NewTime(noon.Add(-time.Hour))
	for _, kind := range []v1.PodConditionType{v1.PodReady, v1.PodInitialized, v1.PodResizeInProgress} {
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: kind, Status: "True", LastTransitionTime: before})
	}
	out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "a running"), Previous: &v1.PodStatus{}, Now: noon, Resizing: runtime.Resizing{UnderWay: true}})
	assert.Equal(t, before, condition(out.Conditions, v1.PodReady).LastTransitionTime)
	assert.Equal(t, before, condition(out.Conditions, v1.PodInitialized).LastTransitionTime)
	assert.Equal(t, metav1.NewTime(noon), condition(out.Conditions, v1.PodResizeInProgress).LastTransitionTime)
}

// A restart of all containers that comes before init was complete does not make the pod
// initialized.
func TestRestartAllBeforeInitIsCompleteInitializesNothing(t *testing.T) {
	pod := podOf(t, always, "side s rule=RestartAllContainers/In/42", "init i", "main a")
	previous := generate(pod, seen(t, "sandbox s", "s running", "i running"))
	require.False(t, isTrue(previous.Conditions, v1.PodInitialized))
	out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "i running", "s exited 42"), Previous: &previous, Now: noon})
	assert.Equal(t, "True", string(condition(out.Conditions, v1.AllContainersRestarting).Status))
	assert.False(t, isTrue(out.Conditions, v1.PodInitialized))
}

// The init containers of an ending pod have completed, although their sandbox is gone: no container
// starts in another sandbox.
func TestInitializedOfAnEndingPod(t *testing.T) {
	pod := podOf(t, always, "init i", "main a")
	in := Input{Pod: pod, Observed: seen(t, "sandbox s dead", "i exited 0"), Now: noon}
	for stage, want := range map[Stage]bool{StageSync: false, StageTerminating: true} {
		in.Stage = stage
		out := Generate(in)
		assert.Equal(t, want, isTrue(out.Conditions, v1.PodInitialized), stage)
	}
}

func TestTransitionTimes(t *testing.T) {
	pod := podOf(t, always, "main a")
	bound := metav1.NewTime(noon.Add(-time.Hour))
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: "True", LastTransitionTime: bound}}

	first := generate(pod, seen(t, "sandbox s"))
	assert.Equal(t, bound, condition(first.Conditions, v1.PodScheduled).LastTransitionTime, "the scheduler's")
	assert.Equal(t, metav1.NewTime(noon), condition(first.Conditions, v1.PodReady).LastTransitionTime)

	later := noon.Add(time.Minute)
	second := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "a running"), Previous: &first, Now: later})
	assert.Equal(t, metav1.NewTime(later), condition(second.Conditions, v1.PodReady).LastTransitionTime, "False to True")
	assert.Equal(t, metav1.NewTime(noon), condition(second.Conditions, v1.PodInitialized).LastTransitionTime, "still True")

	third := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "a running"), Previous: &second, Now: later.Add(time.Minute)})
	assertSame(t, second, third, "nothing has changed")
}

func TestObservedGeneration(t *testing.T) {
	pod := podOf(t, always, "main a policy=Never rule=RestartAllContainers/In/42")
	out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s"), Now: noon,
		ResizePending: &ResizePending{}, Resizing: runtime.Resizing{UnderWay: true}})
	assert.Equal(t, int64(3), out.ObservedGeneration)
	require.Len(t, out.Conditions, len(owned))
	for _, c := range out.Conditions {
		if c.Type == v1.AllContainersRestarting {
			assert.Zero(t, c.ObservedGeneration)
		} else {
			assert.Equal(t, int64(3), c.ObservedGeneration, c.Type)
		}
	}
}
