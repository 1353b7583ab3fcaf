// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/statusmanager"
)

func TestReadinessConditions(t *testing.T) {
	two := testPod("a", containers("one", "two"))
	gated := testPod("a", gate("example.com/lb"), gate("example.com/dns"))
	lb := func(s v1.ConditionStatus) v1.PodCondition { return v1.PodCondition{Type: "example.com/lb", Status: s} }
	dns := v1.PodCondition{Type: "example.com/dns", Status: v1.ConditionTrue}
	tests := []struct {
		name            string
		pod             *v1.Pod
		status          v1.PodStatus
		others          []v1.PodCondition
		containers      v1.ConditionStatus
		ready           v1.ConditionStatus
		reason, message string // of Ready
	}{
		{"no statuses", two, status(v1.PodPending), nil, "False", "False", "UnknownContainerStatuses", ""},
		{"all ready", two, status(v1.PodRunning, ready("one"), ready("two")), nil, "True", "True", "", ""},
		{"one unknown, one unready", two, status(v1.PodRunning, running("two")), nil, "False", "False", "ContainersNotReady",
			"containers with unknown status: [one], containers with unready status: [two]"},
		{"succeeded", two, status(v1.PodSucceeded, exited("one", 0), exited("two", 0)), nil, "False", "False", "PodCompleted", ""},
		{"succeeded with one unknown", two, status(v1.PodSucceeded, exited("one", 0)), nil, "False", "False", "ContainersNotReady",
			"containers with unknown status: [two], containers with unready status: [one]"},
		{"failed", two, status(v1.PodFailed, exited("one", 1)), nil, "False", "False", "PodFailed", ""},
		{"gates missing", gated, status(v1.PodRunning, ready("main")), []v1.PodCondition{lb("Unknown")}, "True", "False", "ReadinessGatesNotReady",
			`the status of pod readiness gate "example.com/lb" is not "True", but Unknown, ` +
				`corresponding condition of pod readiness gate "example.com/dns" does not exist.`},
		{"gates open", gated, status(v1.PodRunning, ready("main")), []v1.PodCondition{lb("True"), dns}, "True", "True", "", ""},
		{"gates open, container not", gated, status(v1.PodRunning, running("main")), []v1.PodCondition{lb("True"), dns}, "False", "False",
			"ContainersNotReady", "containers with unready status: [main]"},
		{"sidecar not ready", testPod("a", sidecar("proxy")), withInit(status(v1.PodRunning, ready("main")), running("proxy")), nil,
			"False", "False", "ContainersNotReady", "containers with unready status: [proxy]"},
		{"plain init does not count", testPod("a", initContainers("init")), withInit(status(v1.PodRunning, ready("main")), exited("init", 0)), nil,
			"True", "True", "", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			containers := statusmanager.ContainersReadyCondition(&tc.pod.Spec, &tc.status)
			ready := statusmanager.PodReadyCondition(&tc.pod.Spec, containers, tc.others)
			assert.Equal(t, tc.containers, containers.Status)
			assert.Equal(t, v1.PodCondition{Type: v1.PodReady, Status: tc.ready, Reason: tc.reason, Message: tc.message}, ready)
		})
	}
}

func withInit(s v1.PodStatus, init ...v1.ContainerStatus) v1.PodStatus {
	s.InitContainerStatuses = init
	return s
}

func TestInitializedCondition(t *testing.T) {
	pod := testPod("a", initContainers("one", "two"))
	side := testPod("a", sidecar("proxy"))
	done := func(name string) v1.ContainerStatus { s := exited(name, 0); s.Ready = true; return s }
	idle := waiting("main", "PodInitializing")
	unstarted := running("proxy")
	unstarted.Started = new(bool)
	tests := []struct {
		name            string
		pod             *v1.Pod
		status          v1.PodStatus
		want            v1.ConditionStatus
		reason, message string
	}{
		{"no init", testPod("a"), status(v1.PodPending), "True", "", ""},
		{"not told", pod, status(v1.PodPending, idle), "False", "UnknownContainerStatuses", ""},
		{"one of two", pod, withInit(status(v1.PodPending, idle), done("one")), "False", "ContainersNotInitialized",
			"containers with unknown status: [two]"},
		{"second runs", pod, withInit(status(v1.PodPending, idle), done("one"), running("two")), "False", "ContainersNotInitialized",
			"containers with incomplete status: [two]"},
		{"both", pod, withInit(status(v1.PodPending, idle), done("one"), done("two")), "True", "", ""},
		{"forgotten, but main runs", pod, withInit(status(v1.PodRunning, running("main")), waiting("one", "x"), waiting("two", "x")), "True", "", ""},
		{"completed", pod, withInit(status(v1.PodSucceeded, exited("main", 0)), done("one"), done("two")), "True", "PodCompleted", ""},
		{"sidecar not started", side, withInit(status(v1.PodPending, idle), unstarted), "False", "ContainersNotInitialized",
			"containers with incomplete status: [proxy]"},
		{"sidecar started", side, withInit(status(v1.PodPending, idle), running("proxy")), "True", "", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := statusmanager.InitializedCondition(&tc.pod.Spec, &tc.status)
			assert.Equal(t, v1.PodCondition{Type: v1.PodInitialized, Status: tc.want, Reason: tc.reason, Message: tc.message}, got)
		})
	}
}

// TestTransitionTimes: a condition has the time of its last change of status, whatever time the caller sets.
func TestTransitionTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, statusmanager.Options{})
		pod := testPod("a")
		since := func(kind v1.PodConditionType) time.Duration {
			s, ok := m.GetPodStatus("a")
			require.True(t, ok)
			return time.Since(condition(s, kind).LastTransitionTime.Time).Round(time.Second)
		}
		set := func(c ...v1.ContainerStatus) {
			t.Helper()
			s := status(v1.PodRunning, c...)
			s.Conditions = []v1.PodCondition{{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue,
				LastTransitionTime: metav1.Unix(1, 0)}}
			_, err := m.SetPodStatus(pod, s)
			require.NoError(t, err)
		}
		set(running("main"))
		time.Sleep(time.Minute)
		set(ready("main"))
		time.Sleep(time.Minute)
		restarted := ready("main")
		restarted.RestartCount = 1
		set(restarted)
		assert.Equal(t, time.Minute, since(v1.PodReady))
		assert.Equal(t, time.Minute, since(v1.ContainersReady))
		assert.Equal(t, 2*time.Minute, since(v1.PodScheduled))
		assert.Equal(t, 2*time.Minute, since(v1.PodReadyToStartContainers), "not what the caller made up")

		_, err := m.SetContainerReadiness("a", "fake://main", false)
		require.NoError(t, err)
		assert.Zero(t, since(v1.PodReady))
		s, _ := m.GetPodStatus("a")
		assert.Equal(t, 2*time.Minute, time.Since(s.StartTime.Time).Round(time.Second), "startTime stays")
	})
}

// TestStatusIsCompleted: a status with only containers is completed.
func TestStatusIsCompleted(t *testing.T) {
	m := newManager(t, statusmanager.Options{})
	pod := testPod("a", func(p *v1.Pod) { p.Generation = 7 })
	_, err := m.SetPodStatus(pod, v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{ready("main")}})
	require.NoError(t, err)
	got, _ := m.GetPodStatus("a")
	assert.Equal(t, v1.PodPending, got.Phase, "as it was")
	assert.Equal(t, int64(7), got.ObservedGeneration)
	assert.NotNil(t, got.StartTime)
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		require.Equal(t, v1.ConditionTrue, conditionStatus(got, kind), kind)
		assert.Equal(t, int64(7), condition(got, kind).ObservedGeneration, kind)
		assert.False(t, condition(got, kind).LastTransitionTime.IsZero(), kind)
	}

	older := with(pod, func(p *v1.Pod) { p.Generation = 6 })
	changed, err := m.SetPodStatus(older, v1.PodStatus{Phase: v1.PodPending, ContainerStatuses: []v1.ContainerStatus{ready("main")}})
	require.NoError(t, err)
	assert.False(t, changed, "observedGeneration does not go back")
}

// TestEndedPodIsNotReadyHere: the readiness from before the end of a pod does not stay.
func TestEndedPodIsNotReadyHere(t *testing.T) {
	m := newManager(t, statusmanager.Options{})
	s := status(v1.PodFailed, exited("main", 1))
	s.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}, {Type: v1.ContainersReady, Status: v1.ConditionTrue}}
	_, err := m.SetPodStatus(testPod("a"), s)
	require.NoError(t, err)
	got, _ := m.GetPodStatus("a")
	assert.Equal(t, v1.ConditionFalse, conditionStatus(got, v1.PodReady))
	assert.Equal(t, v1.ConditionFalse, conditionStatus(got, v1.ContainersReady))
}

// TestInitializedStaysWhileAllContainersRestartInPlace: init is done again, but the pod was initialized, and still is.
func TestInitializedStaysWhileAllContainersRestartInPlace(t *testing.T) {
	pod := testPod("a", initContainers("init"))
	pod.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyNever)
	pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
	m := newManager(t, statusmanager.Options{})
	set := func(s v1.PodStatus) v1.ConditionStatus {
		_, err := m.SetPodStatus(pod, s)
		require.NoError(t, err)
		got, _ := m.GetPodStatus("a")
		return conditionStatus(got, v1.PodInitialized)
	}
	removed := func(name string) v1.ContainerStatus {
		s := waiting(name, "PodInitializing")
		s.LastTerminationState = exited(name, 137).State
		s.LastTerminationState.Terminated.Reason = "RestartingAllContainers"
		return s
	}
	before := status(v1.PodPending, removed("main"))
	before.InitContainerStatuses = []v1.ContainerStatus{removed("init")}
	assert.Equal(t, v1.ConditionFalse, set(before), "it was not initialized before")
	up := status(v1.PodRunning, ready("main"))
	done := exited("init", 0)
	done.Ready = true
	up.InitContainerStatuses = []v1.ContainerStatus{done}
	assert.Equal(t, v1.ConditionTrue, set(up))
	again := before
	again.Phase = v1.PodRunning
	assert.Equal(t, v1.ConditionTrue, set(again))
	triggered := status(v1.PodRunning, waiting("main", "PodInitializing"))
	triggered.InitContainerStatuses = []v1.ContainerStatus{waiting("init", "PodInitializing")}
	triggered.Conditions = []v1.PodCondition{{Type: v1.AllContainersRestarting, Status: v1.ConditionTrue}}
	assert.Equal(t, v1.ConditionTrue, set(triggered))
	lost := triggered
	lost.Conditions = nil // as after the loss of the sandbox
	assert.Equal(t, v1.ConditionFalse, set(lost))
}

// TestCallersOwnConditionsAreKept: PodScheduled and Initialized set by the caller are not recomputed.
func TestCallersOwnConditionsAreKept(t *testing.T) {
	m := newManager(t, statusmanager.Options{})
	s := status(v1.PodPending, waiting("main", "ContainerCreating"))
	s.Conditions = []v1.PodCondition{
		{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Mine"}, {Type: v1.PodInitialized, Status: v1.ConditionFalse, Reason: "Mine"},
	}
	_, err := m.SetPodStatus(testPod("a"), s)
	require.NoError(t, err)
	got, _ := m.GetPodStatus("a")
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized} {
		assert.Equal(t, "Mine", condition(got, kind).Reason)
		assert.Equal(t, v1.ConditionFalse, condition(got, kind).Status)
	}
}
