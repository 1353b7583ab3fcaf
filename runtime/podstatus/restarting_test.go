// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// A container that is being restarted counts as running for a second after its exit, if the last
// status showed the instance running.
func TestHoldReadiness(t *testing.T) {
	now := time.Unix(1000, 0)
	instance := func(id string, state runtime.State, ago time.Duration) runtime.ContainerStatus {
		c := runtime.ContainerStatus{Name: "a", ID: runtime.ContainerID{Runtime: "fake", ID: id}, State: state, Hash: id}
		if state == runtime.StateExited {
			c.ExitCode, c.Reason, c.Message, c.FinishedAt = 3, "Error", "bye", now.Add(-ago)
		}
		return c
	}
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	shown := func(id string, state v1.ContainerState) *v1.PodStatus {
		return &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "b", ContainerID: "fake://b", State: running}, {Name: "a", ContainerID: "fake://" + id, State: state}}}
	}
	exited := []runtime.ContainerStatus{instance("1", runtime.StateExited, time.Millisecond)}
	other, older := instance("b", runtime.StateCreated, 0), instance("0", runtime.StateExited, time.Hour)
	other.Name = "b"
	second, held := instance("b", runtime.StateExited, time.Millisecond), instance("b", runtime.StateRunning, 0)
	second.Name, held.Name = "b", "b"
	for _, c := range []struct {
		name       string
		before     *v1.PodStatus
		seen       []runtime.ContainerStatus // newest first
		restarting []string
		want       []runtime.ContainerStatus // defaults to seen
	}{
		{"just exited", shown("1", running), exited, []string{"b", "a"}, []runtime.ContainerStatus{instance("1", runtime.StateRunning, 0)}},
		{"with a successor that has not started", shown("1", running), append([]runtime.ContainerStatus{instance("2", runtime.StateCreated, 0)}, exited...), []string{"a"},
			[]runtime.ContainerStatus{instance("1", runtime.StateRunning, 0)}},
		{"beside other instances", shown("1", running), append([]runtime.ContainerStatus{other}, exited[0], older), []string{"a"},
			[]runtime.ContainerStatus{other, instance("1", runtime.StateRunning, 0), older}},
		{"two containers", shown("1", running), append([]runtime.ContainerStatus{second}, exited...), []string{"a", "b"},
			[]runtime.ContainerStatus{held, instance("1", runtime.StateRunning, 0)}},
		{"with a successor that runs", shown("1", running), append([]runtime.ContainerStatus{instance("2", runtime.StateRunning, 0)}, exited...), []string{"a"}, nil},
		{"exited a second ago", shown("1", running), []runtime.ContainerStatus{instance("1", runtime.StateExited, time.Second)}, []string{"a"}, nil},
		{"not restarted by this sync", shown("1", running), exited, []string{"b"}, nil},
		{"whose exit is published", shown("1", v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}), exited, []string{"a"}, nil},
		{"whose predecessor was shown", shown("0", running), exited, []string{"a"}, nil},
		{"that is not there", shown("1", running), nil, []string{"a"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == nil {
				c.want = c.seen
			}
			seen := append([]runtime.ContainerStatus{}, c.seen...)
			got := holdReadiness(&runtime.PodStatus{Containers: seen}, c.before, c.restarting, now)
			assert.Equal(t, append([]runtime.ContainerStatus{}, c.want...), got.Containers)
			assert.Equal(t, append([]runtime.ContainerStatus{}, c.seen...), seen, "the argument is not written")
		})
	}
	assert.Nil(t, holdReadiness(nil, &v1.PodStatus{}, []string{"a"}, now))
}

// The exit of a container that is about to be restarted is not published. Other exits are. The
// container is not ready.
func TestHoldBack(t *testing.T) {
	of := func(name, id string, ended bool) v1.ContainerStatus {
		s := v1.ContainerStatus{Name: name, ContainerID: id, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
		if ended {
			s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
		}
		return s
	}
	before := []v1.ContainerStatus{of("a", "1", false), of("b", "2", false), of("c", "3", false), of("d", "5", false)}
	before[0].Ready = true
	statuses := []v1.ContainerStatus{of("a", "1", true), of("b", "2", true), of("c", "4", true), of("d", "5", true), of("e", "6", true)}
	holdBack(statuses, before, []string{"a", "c", "d", "e"})
	assert.Equal(t, []v1.ContainerStatus{of("a", "1", false), of("b", "2", true), of("c", "4", true), of("d", "5", false), of("e", "6", true)}, statuses)
}

func TestSetWaitingMessage(t *testing.T) {
	status := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
		{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
		{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "own"}}},
		{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
		{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "PodInitializing"}}},
	}}
	SetWaitingMessage(&status, "no disk")
	assert.Equal(t, "no disk", status.ContainerStatuses[0].State.Waiting.Message)
	assert.Equal(t, "no disk", status.ContainerStatuses[3].State.Waiting.Message)
	assert.Equal(t, "own", status.ContainerStatuses[1].State.Waiting.Message)
	SetWaitingMessage(&status, "")
	assert.Empty(t, status.ContainerStatuses[0].State.Waiting.Message)
}

func TestNames(t *testing.T) {
	id := runtime.ContainerID{Runtime: "test", ID: "a"}
	named := v1.ContainerStatus{ContainerID: "test://a"}
	last := v1.ContainerStatus{ContainerID: "test://b", LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "test://a"}}}
	other := v1.ContainerStatus{ContainerID: "test://b", LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "test://c"}}}
	for _, c := range []v1.ContainerStatus{named, last} {
		list := []v1.ContainerStatus{other, c}
		for _, status := range []v1.PodStatus{{InitContainerStatuses: list}, {ContainerStatuses: list}, {EphemeralContainerStatuses: list}} {
			assert.True(t, Names(&status, id))
		}
	}
	assert.False(t, Names(&v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{other, {}}}, id))
}

// Generate shows a container that is being restarted as running for a second, and does not show its
// exit afterwards.
func TestGenerateDuringARestart(t *testing.T) {
	pod := podOf(t, always, "main a")
	observed := seen(t, "sandbox s", "a exited 3")
	before := generate(pod, seen(t, "sandbox s", "a running"))
	exit := observed.Containers[0].FinishedAt
	for _, c := range []struct {
		after      time.Duration
		restarting []string
		want       string
		ready      bool
	}{
		{time.Millisecond, []string{"a"}, "running", true},
		{time.Minute, []string{"a"}, "running", false},
		{time.Millisecond, nil, "terminated Error 3 a-0", false},
	} {
		out := Generate(Input{Pod: pod, Observed: observed, Previous: &before, Restarting: c.restarting, Now: exit.Add(c.after)})
		assert.Equal(t, c.want, show(statusOf(&out, "a")))
		assert.Equal(t, c.ready, out.ContainerStatuses[0].Ready)
	}
}
