// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// story generates a status after each observation, with the last status as the previous status, and
// returns the statuses of container a.
func story(t *testing.T, pod *v1.Pod, observations ...[]string) []string {
	t.Helper()
	var out []string
	var previous *v1.PodStatus
	for _, lines := range observations {
		st := Generate(Input{Pod: pod, Observed: seen(t, lines...), Previous: previous, Now: noon})
		again := Generate(Input{Pod: pod, Observed: seen(t, lines...), Previous: &st, Now: noon.AddDate(0, 0, 1)})
		assertSame(t, st, again, fmt.Sprintf("generating again for %v", lines))
		out = append(out, show(statusOf(&st, "a")))
		previous = &st
	}
	return out
}

type obs = []string

// TestForgottenRecords: the previous status replaces lost records.
func TestForgottenRecords(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		pod    []string
		seen   []obs
		want   []string // of container a
	}{
		{"a terminated one stays as it is", onFailure, []string{"main a"},
			[]obs{{"sandbox s", "a exited 0 #2"}, {"sandbox s"}},
			[]string{"terminated Completed 0 a-0 #2", "terminated Completed 0 a-0 #2"}},
		{"a running one is lost", always, []string{"main a"},
			[]obs{{"sandbox s", "a running #2"}, {"sandbox s"}},
			[]string{"running #2", "waiting ContainerCreating #3, last terminated ContainerStatusUnknown 137 a-0"}},
		{"a running one is lost, init before it", always, []string{"init i", "main a"},
			[]obs{{"sandbox s", "a running #2"}, {"sandbox s"}},
			[]string{"running #2", "waiting PodInitializing #3, last terminated ContainerStatusUnknown 137 a-0"}},
		{"a running one is lost in a deleted pod: no restart follows", always, []string{"main a", "deleted"},
			[]obs{{"sandbox s", "a running #2"}, {"sandbox s"}},
			[]string{"running #2", "waiting ContainerCreating #2, last terminated ContainerStatusUnknown 137 a-0"}},
		{"a running one is lost and not restarted: it has ended", never, []string{"main a"},
			[]obs{{"sandbox s", "a running #2"}, {"sandbox s"}},
			[]string{"running #2", "terminated ContainerStatusUnknown 137 a-0 #2"}},
		{"a running one with a last state is lost and not restarted", never, []string{"main a"},
			[]obs{{"sandbox s", "a running #2", "a exited 5"}, {"sandbox s"}},
			[]string{"running #2, last terminated Error 5 a-0", "terminated ContainerStatusUnknown 137 a-1 #2, last terminated Error 5 a-0"}},
		{"a running one with a last state is lost", always, []string{"main a"},
			[]obs{{"sandbox s", "a running #2", "a exited 5"}, {"sandbox s"}},
			[]string{"running #2, last terminated Error 5 a-0", "waiting ContainerCreating #2, last terminated Error 5 a-0"}},
		{"a waiting one keeps its count and last state", always, []string{"main a"},
			[]obs{{"sandbox s", "a created #2", "a exited 5 #1"}, {"sandbox s"}},
			[]string{"waiting #2, last terminated Error 5 a-0", "waiting ContainerCreating #2, last terminated Error 5 a-0"}},
		{"the lost one is replaced: it was counted", always, []string{"main a"},
			[]obs{{"sandbox s", "a running #2"}, {"sandbox s"}, {"sandbox s", "a running #0 =1"}},
			[]string{"running #2", "waiting ContainerCreating #3, last terminated ContainerStatusUnknown 137 a-0",
				"running #3, last terminated ContainerStatusUnknown 137 a-0"}},
		{"unknown after running", always, []string{"main a"},
			[]obs{{"sandbox s", "a running #2"}, {"sandbox s", "a unknown #2"}, {"sandbox s", "a running #3", "a exited 137 #2"}},
			[]string{"running #2", "terminated ContainerStatusUnknown 137 a-0 #2", "running #3, last terminated Error 137 a-0"}},
		{"unknown, then its end is known", always, []string{"main a"},
			[]obs{{"sandbox s", "a running #2"}, {"sandbox s", "a unknown #2"}, {"sandbox s", "a exited 3 #2"}, {"sandbox s", "a running #3", "a exited 3 #2"}},
			[]string{"running #2", "terminated ContainerStatusUnknown 137 a-0 #2", "terminated Error 3 a-0 #2", "running #3, last terminated Error 3 a-0"}},
		{"unknown after another one ran", always, []string{"main a"},
			[]obs{{"sandbox s", "pad exited", "a running #2"}, {"sandbox s", "a unknown #7 =1"}},
			[]string{"running #2", "terminated ContainerStatusUnknown 137 a-1 #7, last terminated ContainerStatusUnknown 137 a-0"}},
		{"a running one has a newer record that is no successor", always, []string{"main a"},
			[]obs{{"sandbox s", "pad exited", "a running #2"}, {"sandbox s", "a created #2", "a running #2"}, {"sandbox s", "a created #2", "a exited 0 #2"}},
			[]string{"running #2", "running #2", "terminated Completed 0 a-0 #2"}},
		{"one that had just begun to run is removed: its successor has its number", always, []string{"main a"},
			[]obs{{"sandbox s", "a running #1", "a exited 1"}, {"sandbox s", "a exited 1"}, {"sandbox s", "a running #1 =2", "a exited 1 =0"}},
			[]string{"running #1, last terminated Error 1 a-0", "terminated Error 1 a-0 #1", "running #1, last terminated Error 1 a-0"}},
		{"unknown, then another one is unknown", always, []string{"main a"},
			[]obs{{"sandbox s", "pad exited", "pad exited", "a running #2"}, {"sandbox s", "pad exited", "pad exited", "a unknown #2"}, {"sandbox s", "a unknown #3 =1"}},
			[]string{"running #2", "terminated ContainerStatusUnknown 137 a-0 #2", "waiting #3, last terminated ContainerStatusUnknown 137 a-0"}},
		{"unknown, then its record is gone", always, []string{"main a"},
			[]obs{{"sandbox s", "a running #2"}, {"sandbox s", "a unknown #2"}, {"sandbox s"}},
			[]string{"running #2", "terminated ContainerStatusUnknown 137 a-0 #2", "terminated ContainerStatusUnknown 137 a-0 #2"}},
		{"an init container of an initialized pod has completed", always, []string{"init a", "main b"},
			[]obs{{"sandbox s", "a running"}, {"sandbox s", "b running"}},
			[]string{"running", "terminated Completed 0 a-0"}},
		{"an init container has completed if one of two regular ones was made", always, []string{"init a", "main b", "main c"},
			[]obs{{"sandbox s", "a running"}, {"sandbox s", "b running"}},
			[]string{"running", "terminated Completed 0 a-0"}},
		{"a running one is lost in a deleted pod whose containers are not restarted", never, []string{"main a", "deleted"},
			[]obs{{"sandbox s", "a running #2"}, {"sandbox s"}},
			[]string{"running #2", "waiting ContainerCreating #2, last terminated ContainerStatusUnknown 137 a-0"}},
		{"one that ended between two observations", always, []string{"main a"},
			[]obs{{"sandbox s", "pad exited", "a running #1"}, {"sandbox s", "a exited 7 #2 =1"}},
			[]string{"running #1", "terminated Error 7 a-1 #2, last terminated ContainerStatusUnknown 137 a-0"}},
		{"an init container that init has come past stays complete", always, []string{"init a", "init j", "main b"},
			[]obs{{"sandbox s", "a exited 0"}, {"sandbox s", "j running"}},
			[]string{"terminated Completed 0 a-0", "terminated Completed 0 a-0"}},
		{"an init container that will run again waits", always, []string{"init i", "init a", "main b"},
			[]obs{{"sandbox s", "b running", "a exited 0", "i exited 0"}, {"sandbox t", "sandbox s dead", "i running =1", "b exited 255 @s"}},
			[]string{"terminated Completed 0 a-0", "waiting PodInitializing, last terminated Completed 0 a-0"}},
		{"the init containers run again in a new sandbox", always, []string{"init a", "init j", "main b"},
			[]obs{{"sandbox s", "b running", "j exited 0", "a exited 0"}, {"sandbox t", "sandbox s dead", "b exited 255 @s"}},
			[]string{"terminated Completed 0 a-0", "waiting PodInitializing, last terminated Completed 0 a-0"}},
		{"the record of a successor that never ran is removed for a restart of all", always, []string{"main a", "main b policy=Never rule=RestartAllContainers/In/42"},
			[]obs{{"sandbox s", "b running", "a created #1 =x", "a exited 5"}, {"sandbox s", "b running", "pad exited", "a exited 5"}, {"sandbox s", "b exited 42"}},
			[]string{"waiting #1, last terminated Error 5 a-0", "terminated Error 5 a-0 #1",
				"waiting ContainerCreating #2, last terminated RestartingAllContainers 137 a-x"}},
		{"a sidecar of an initialized pod has not", always, []string{"side a", "main b"},
			[]obs{{"sandbox s", "b running"}}, []string{"waiting PodInitializing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, story(t, podOf(t, c.policy, c.pod...), c.seen...))
		})
	}
}

// TestForgottenEndWithStartFailure: if only the previous status knows how a
// container ended, that decides whether a failed start is worth showing.
func TestForgottenEndWithStartFailure(t *testing.T) {
	for policy, want := range map[v1.RestartPolicy]string{
		always:    "waiting CrashLoopBackOff, last terminated Completed 0 a-0",
		onFailure: "terminated Completed 0 a-0",
	} {
		pod := podOf(t, policy, "main a")
		previous := generate(pod, seen(t, "sandbox s", "a exited 0"))
		in := Input{Pod: pod, Observed: seen(t, "sandbox s"), Previous: &previous, StartFailures: crashing("a"), Now: noon}
		out := Generate(in)
		assert.Equal(t, want, show(statusOf(&out, "a")))
		assert.Equal(t, "test://a-0", out.ContainerStatuses[0].ContainerID)

		in.Previous = &out
		assertSame(t, out, Generate(in), "once more")
	}
}

// TestRestartCountGoesOn: the records start from 0 again, the status does not.
func TestRestartCountGoesOn(t *testing.T) {
	failed := func(count int32) *v1.PodStatus {
		st := generate(podOf(t, always, "main a"), seen(t, "pad exited", "pad exited", "a exited 1"))
		st.ContainerStatuses[0].RestartCount = count
		st.ContainerStatuses[0].ContainerID = "test://old"
		st.ContainerStatuses[0].State.Terminated.ContainerID = "test://old"
		return &st
	}
	running := failed(5)
	running.ContainerStatuses[0].State = v1.ContainerState{
		Running: &v1.ContainerStateRunning{StartedAt: running.ContainerStatuses[0].State.Terminated.StartedAt},
	}
	second := failed(5)
	second.ContainerStatuses[0].LastTerminationState.Terminated = &v1.ContainerStateTerminated{ContainerID: "test://before"}
	unstarted := failed(5)
	unstarted.ContainerStatuses[0].LastTerminationState = unstarted.ContainerStatuses[0].State
	unstarted.ContainerStatuses[0].LastTerminationState.Terminated.ContainerID = "test://before"
	unstarted.ContainerStatuses[0].State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
	for _, c := range []struct {
		name     string
		previous *v1.PodStatus
		seen     []string
		want     string
	}{
		{"5 failed, a new one with 0", failed(5), []string{"a running #0"}, "running #6, last terminated Error 1 old"},
		{"5 failed, a new one with 5", failed(5), []string{"a running #5"}, "running #6, last terminated Error 1 old"},
		{"5 failed, a new one with 6", failed(5), []string{"a running #6"}, "running #6, last terminated Error 1 old"},
		{"5 failed, a new one with 9", failed(5), []string{"a running #9"}, "running #9, last terminated Error 1 old"},
		{"5 running, removed as it began to, a new one with 5", running, []string{"a running #5"}, "running #5, last terminated ContainerStatusUnknown 137 old"},
		{"5 running, a new one with 0", running, []string{"a running #0"}, "running #6, last terminated ContainerStatusUnknown 137 old"},
		{"5 failed after another, a new one with 0", second, []string{"a running #0"}, "running #6, last terminated Error 1 old"},
		{"5 never ran, a new one with 0", unstarted, []string{"a running #0"}, "running #5, last terminated Error 1 before"},
		{"5 running, an observation from before that", running,
			[]string{"pad exited", "pad exited", "pad exited", "pad exited", "pad exited", "a running #3"}, "running #5"},
		{"5 failed, an observation from before that", failed(5),
			[]string{"pad exited", "pad exited", "pad exited", "pad exited", "pad exited", "a running #3"}, "running #5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := Generate(Input{Pod: podOf(t, always, "main a"), Observed: seen(t, c.seen...), Previous: c.previous, Now: noon})
			assert.Equal(t, c.want, show(statusOf(&out, "a")))
		})
	}
}

// TestRestartCountOfInstancesThatNeverRan: a failed start is not a restart, for any number of tries
// and for observations during the exchange of a record.
func TestRestartCountOfInstancesThatNeverRan(t *testing.T) {
	pod := podOf(t, always, "main a")
	failures := runtime.StartFailures{"a": {Reason: "RunContainerError"}}
	for _, c := range []struct {
		name string
		seen []obs
		want []string
	}{
		{"the first start fails twice",
			[]obs{{"pad exited", "a created =x"}, {"pad exited"}, {"a created =y"}},
			[]string{"waiting RunContainerError", "waiting RunContainerError", "waiting RunContainerError"}},
		{"a restart fails twice",
			[]obs{{"pad exited", "a created #1 =x", "a exited 5"}, {"a created #1 =y", "pad exited", "a exited 5"}},
			[]string{"waiting RunContainerError #1, last terminated Error 5 a-0", "waiting RunContainerError #1, last terminated Error 5 a-0"}},
		{"it is seen without the record that is exchanged",
			[]obs{{"pad exited", "a created #1 =x", "a exited 5"}, {"pad exited", "pad exited", "a exited 5"}, {"a created #1 =y", "pad exited", "a exited 5"}},
			[]string{"waiting RunContainerError #1, last terminated Error 5 a-0", "waiting RunContainerError #1, last terminated Error 5 a-0",
				"waiting RunContainerError #1, last terminated Error 5 a-0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var previous *v1.PodStatus
			for i, lines := range c.seen {
				st := Generate(Input{Pod: pod, Observed: seen(t, lines...), Previous: previous, StartFailures: failures, Now: noon})
				assert.Equal(t, c.want[i], show(statusOf(&st, "a")), "%v", lines)
				previous = &st
			}
		})
	}
}

// TestRestartCountOfAnInstanceThatAnotherAgentMade: an agent that dies between making and starting
// an instance leaves an instance that never ran. The next agent replaces the instance, and counts a
// single restart.
func TestRestartCountOfAnInstanceThatAnotherAgentMade(t *testing.T) {
	got := story(t, podOf(t, always, "main a"),
		obs{"pad exited", "a created #1 =x", "a exited 5"},
		obs{"pad exited", "pad exited", "a exited 5"},
		obs{"pad exited", "pad exited", "a exited 5"},
		obs{"a created #1 =y", "pad exited", "a exited 5"},
		obs{"a running #1 =y", "pad exited", "a exited 5"},
	)
	assert.Equal(t, []string{
		"waiting #1, last terminated Error 5 a-0",
		"terminated Error 5 a-0 #1",
		"terminated Error 5 a-0 #1",
		"waiting #1, last terminated Error 5 a-0",
		"running #1, last terminated Error 5 a-0",
	}, got)
}

// An instance that an earlier agent made never ran and is removed, and then a reboot removes the record of the
// instance before. Its successor is the restart that is counted already.
func TestRestartCountOfASuccessorAfterAReboot(t *testing.T) {
	got := story(t, podOf(t, always, "main a"),
		obs{"pad exited", "a created #1 =x", "a exited 5"},
		obs{"pad exited", "pad exited", "a exited 5"},
		obs{"pad exited"},
		obs{"pad exited"},
		obs{"a created #1 =y", "pad exited"},
		obs{"a running #1 =y", "pad exited"},
	)
	assert.Equal(t, []string{
		"waiting #1, last terminated Error 5 a-0",
		"terminated Error 5 a-0 #1",
		"terminated Error 5 a-0 #1",
		"terminated Error 5 a-0 #1",
		"waiting #1, last terminated Error 5 a-0",
		"running #1, last terminated Error 5 a-0",
	}, got)
}

// TestRestartAllInPlace follows a pod of which all containers are restarted.
func TestRestartAllInPlace(t *testing.T) {
	pod := podOf(t, never, "init i", "main a", "main b policy=Never rule=RestartAllContainers/In/42")
	var previous *v1.PodStatus
	for _, step := range []struct {
		name       string
		seen       obs
		a, b, i    string
		restarting v1.ConditionStatus
		phase      v1.PodPhase
	}{
		{"all is well", obs{"sandbox s", "b running", "a running", "i exited 0"},
			"running", "running", "terminated Completed 0 i-0", v1.ConditionFalse, v1.PodRunning},
		{"b asks for it", obs{"sandbox s", "b exited 42", "a running", "i exited 0"},
			"running", "terminated Error 42 b-0", "terminated Completed 0 i-0", v1.ConditionTrue, v1.PodRunning},
		{"a is removed", obs{"sandbox s", "b exited 42", "i exited 0"},
			"waiting PodInitializing #1, last terminated RestartingAllContainers 137 a-0", "terminated Error 42 b-0",
			"terminated Completed 0 i-0", v1.ConditionTrue, v1.PodRunning},
		{"i is removed", obs{"sandbox s", "b exited 42"},
			"waiting PodInitializing #1, last terminated RestartingAllContainers 137 a-0", "terminated Error 42 b-0",
			"waiting PodInitializing #1, last terminated RestartingAllContainers 137 i-0", v1.ConditionTrue, v1.PodRunning},
		{"b is removed, the last", obs{"sandbox s"},
			"waiting PodInitializing #1, last terminated RestartingAllContainers 137 a-0",
			"waiting PodInitializing #1, last terminated RestartingAllContainers 137 b-0",
			"waiting PodInitializing #1, last terminated RestartingAllContainers 137 i-0", v1.ConditionFalse, v1.PodPending},
		{"init runs again", obs{"sandbox s", "i running #1 =1"},
			"waiting PodInitializing #1, last terminated RestartingAllContainers 137 a-0",
			"waiting PodInitializing #1, last terminated RestartingAllContainers 137 b-0",
			"running #1, last terminated RestartingAllContainers 137 i-0", v1.ConditionFalse, v1.PodPending},
		{"all is well again", obs{"sandbox s", "b running #1 =1", "a running #1 =1", "i exited 0 #1 =1"},
			"running #1, last terminated RestartingAllContainers 137 a-0",
			"running #1, last terminated RestartingAllContainers 137 b-0",
			"terminated Completed 0 i-1 #1, last terminated RestartingAllContainers 137 i-0", v1.ConditionFalse, v1.PodRunning},
	} {
		observed := seen(t, step.seen...)
		st := Generate(Input{Pod: pod, Observed: observed, Previous: previous, Now: noon})
		assertSame(t, st, Generate(Input{Pod: pod, Observed: observed, Previous: &st, Now: noon}), step.name)
		assert.Equal(t, [3]string{step.a, step.b, step.i},
			[3]string{show(statusOf(&st, "a")), show(statusOf(&st, "b")), show(statusOf(&st, "i"))}, step.name)
		assert.Equal(t, step.restarting, condition(st.Conditions, v1.AllContainersRestarting).Status, step.name)
		assert.Equal(t, step.phase, st.Phase, step.name)
		assert.True(t, isTrue(st.Conditions, v1.PodInitialized), "it stays initialized: %s", step.name)
		previous = &st
	}
}

// An init container without a record is taken as completed in an initialized pod. A restart of all containers
// starts it for the first time that is known, and counts no restart.
func TestRestartAllCountsNoUnknownInstance(t *testing.T) {
	pod := podOf(t, never, "init i", "main a policy=Never rule=RestartAllContainers/In/42")
	var previous *v1.PodStatus
	for _, step := range []struct {
		seen obs
		want string
	}{
		{obs{"sandbox s", "a running"}, "terminated Completed 0"},
		{obs{"sandbox s", "a exited 42"}, "waiting PodInitializing"},
		{obs{"sandbox s"}, "waiting PodInitializing"},
		{obs{"sandbox s", "i running"}, "running"},
	} {
		st := Generate(Input{Pod: pod, Observed: seen(t, step.seen...), Previous: previous, Now: noon})
		assert.Equal(t, step.want, show(statusOf(&st, "i")), "%v", step.seen)
		previous = &st
	}
}

// A container that ran, has no record and is not restarted is shown with the IDs of its instance and image.
func TestALostInstanceKeepsItsIDs(t *testing.T) {
	pod := podOf(t, never, "main a")
	before := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "a running"), Now: noon})
	before.ContainerStatuses[0].ImageID = "test://image"
	after := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s"), Previous: &before, Now: noon})
	assert.NotNil(t, after.ContainerStatuses[0].State.Terminated)
	assert.Equal(t, "test://a-0", after.ContainerStatuses[0].ContainerID)
	assert.Equal(t, "test://image", after.ContainerStatuses[0].ImageID)
}

// A container that waits for its second instance, which was made and has no record, is not shown
// with the ID of that instance: only the instance that ended last has ended.
func TestAWaitingInstanceWhoseRecordIsGoneIsNotNamed(t *testing.T) {
	pod := podOf(t, always, "main a")
	ended := &v1.ContainerStateTerminated{ExitCode: 1, ContainerID: "test://a-0"}
	for id, want := range map[string]string{"test://a-0": "test://a-0", "test://a-1": ""} {
		previous := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
			Name: "a", ContainerID: id, RestartCount: 1,
			State:                v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: v1.ContainerState{Terminated: ended},
		}}}
		out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s"), Previous: &previous, Now: noon})
		assert.Equal(t, want, statusOf(&out, "a").ContainerID, "of %s", id)
		assert.Equal(t, ended, statusOf(&out, "a").LastTerminationState.Terminated)
	}
	previous := v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{
		Name: "i", ContainerID: "test://i-1", State: v1.ContainerState{Terminated: ended},
		LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "test://i-1"}},
	}}}
	out := Generate(Input{Pod: podOf(t, always, "init i", "main a"), Observed: seen(t, "sandbox s"), Previous: &previous, Now: noon})
	assert.Empty(t, statusOf(&out, "i").ContainerID, "init runs again")
}

// A restart of all containers removes them. A container that ran counts one more restart; an
// ephemeral container, and a pod that is stopped meanwhile, do not.
func TestRemovedForARestartOfAll(t *testing.T) {
	rule := "main a policy=Never rule=RestartAllContainers/In/42"
	for _, c := range []struct {
		name   string
		before obs
		stage  Stage
		want   []string // of a, b and d
	}{
		{"in place", obs{"sandbox s", "d running", "b running", "a exited 42"}, StageSync, []string{
			"waiting ContainerCreating #1, last terminated RestartingAllContainers 137 a-0",
			"waiting ContainerCreating #1, last terminated RestartingAllContainers 137 b-0",
			"waiting ContainerCreating #1, last terminated ContainerStatusUnknown 137 d-0"}},
		{"one never ran", obs{"sandbox s", "d running", "b created", "a exited 42"}, StageSync, []string{
			"waiting ContainerCreating #1, last terminated RestartingAllContainers 137 a-0",
			"waiting ContainerCreating",
			"waiting ContainerCreating #1, last terminated ContainerStatusUnknown 137 d-0"}},
		{"stopped meanwhile", obs{"sandbox s", "d running", "b running", "a exited 42"}, StageTerminating, []string{
			"terminated Error 42 a-0",
			"waiting ContainerCreating, last terminated ContainerStatusUnknown 137 b-0",
			"waiting ContainerCreating, last terminated ContainerStatusUnknown 137 d-0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(t, always, rule, "main b", "debug d")
			before := generate(pod, seen(t, c.before...))
			assert.True(t, isTrue(before.Conditions, v1.AllContainersRestarting))
			out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s"), Previous: &before, Stage: c.stage, Now: noon})
			var got []string
			for _, name := range []string{"a", "b", "d"} {
				got = append(got, show(statusOf(&out, name)))
			}
			assert.Equal(t, c.want, got)
			if a := &out.ContainerStatuses[0]; c.stage == StageSync {
				assert.Empty(t, a.ContainerID)
				assert.Equal(t, messageRemoved, a.LastTerminationState.Terminated.Message)
			}
		})
	}
}

// A container that has run for good stays so, although a successor was made and cannot be started.
func TestStartFailureOfASuccessorThatIsNotWanted(t *testing.T) {
	pod := podOf(t, never, "main a", "main b")
	before := generate(pod, seen(t, "sandbox s", "b running", "a exited 0"))
	out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "b running", "a created =1"), Previous: &before, StartFailures: crashing("a"), Now: noon})
	assert.Equal(t, "terminated Completed 0 a-0", show(statusOf(&out, "a")))
	out = Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "b exited 0", "a created =1"), Previous: &before, Now: noon})
	assert.Equal(t, succeeded, out.Phase)
}

// The ID is that of the newest instance that was ever seen, although its record may be gone.
func TestIDOfTheNewestInstance(t *testing.T) {
	pod := podOf(t, always, "main a")
	of := func(lines ...string) v1.PodStatus {
		return generate(pod, seen(t, append([]string{"sandbox s"}, lines...)...))
	}
	reset := of("a exited 1")
	reset.ContainerStatuses[0].LastTerminationState = reset.ContainerStatuses[0].State
	reset.ContainerStatuses[0].State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
	reset.ContainerStatuses[0].ContainerID = ""
	for _, c := range []struct {
		name   string
		before v1.PodStatus
		seen   obs
		want   string
	}{
		{"it ended", of("a running =1", "a exited 1 =0"), obs{"a exited 2 =1", "a exited 1 =0"}, "test://a-1"},
		{"it had just started and was removed", of("a running =1", "a exited 1 =0"), obs{"a exited 1 =0"}, "test://a-1"},
		{"it never ran and was removed", of("a created #1 =1", "a exited 1 =0"), obs{"a exited 1 =0"}, "test://a-1"},
		{"it never ran, and its successor has ended", of("a created #1 =1", "a exited 1 =0"), obs{"a exited 9 =2", "a exited 1 =0"}, "test://a-2"},
		{"no ID is known", reset, obs{"a exited 1 =0"}, "test://a-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := Generate(Input{Pod: pod, Observed: seen(t, append(obs{"sandbox s"}, c.seen...)...), Previous: &c.before, Now: noon})
			assert.Equal(t, c.want, out.ContainerStatuses[0].ContainerID)
		})
	}
}

// The restart count stays if the record of an instance is gone that failed to start, and has no
// time of its start.
func TestRestartCountWithoutTheRecordOfAFailedStart(t *testing.T) {
	pod := podOf(t, always, "main a")
	observed := seen(t, "sandbox s", "a exited 128 StartError #1", "a exited 5")
	observed.Containers[0].StartedAt = time.Time{}
	before := generate(pod, observed)
	assert.Equal(t, "terminated StartError 128 a-1 #1, last terminated Error 5 a-0", show(statusOf(&before, "a")))
	out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "pad exited", "a exited 5"), Previous: &before, Now: noon})
	assert.Equal(t, "terminated Error 5 a-0 #1", show(statusOf(&out, "a")))
}
