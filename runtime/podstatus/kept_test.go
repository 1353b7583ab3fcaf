// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// In a new sandbox init starts over, and the pod is not initialized, if and only if a regular
// container is to run.
func TestInitializedInANewSandbox(t *testing.T) {
	lost := []string{"sandbox t", "sandbox s dead", "i exited 0 @s"}
	for _, c := range []struct {
		name     string
		policy   v1.RestartPolicy
		before   []string // regular containers in the last sandbox, for the previous status
		observed []string // what is left of them
		stage    Stage
		want     v1.ConditionStatus
	}{
		{"all are over", never, nil, []string{"b exited 0 @s", "a exited 1 @s"}, StageSync, v1.ConditionTrue},
		{"the first restarts", onFailure, nil, []string{"b exited 0 @s", "a exited 1 @s"}, StageSync, v1.ConditionFalse},
		{"the second restarts", onFailure, nil, []string{"b exited 1 @s", "a exited 0 @s"}, StageSync, v1.ConditionFalse},
		{"one was never made", never, nil, []string{"a exited 0 @s"}, StageSync, v1.ConditionFalse},
		{"the record of one is gone, and it is over", never, []string{"b exited 0", "a exited 1"}, []string{"a exited 1 @s"}, StageSync, v1.ConditionTrue},
		{"the record of one is gone, and it restarts", onFailure, []string{"b exited 1", "a exited 0"}, []string{"a exited 0 @s"}, StageSync, v1.ConditionFalse},
		{"the successor of one never ran, and it is over", never, []string{"b exited 0", "a exited 1"}, []string{"b created @s =1", "a exited 1 @s =0"}, StageSync, v1.ConditionTrue},
		{"nothing restarts in a pod that is stopped", onFailure, nil, []string{"b exited 1 @s", "a exited 0 @s"}, StageTerminating, v1.ConditionTrue},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(t, c.policy, "init i", "main a", "main b")
			in := Input{Pod: pod, Observed: seen(t, append(lost, c.observed...)...), Stage: c.stage, Now: noon}
			if c.before != nil {
				before := generate(pod, seen(t, append(append([]string{"sandbox s"}, c.before...), "i exited 0")...))
				in.Previous = &before
			}
			out := Generate(in)
			require.NotNil(t, condition(out.Conditions, v1.PodInitialized))
			assert.Equal(t, c.want, condition(out.Conditions, v1.PodInitialized).Status)
		})
	}
}

func TestInitializedByItself(t *testing.T) {
	notReady := func(runtime.ContainerID) bool { return false }
	for _, c := range []struct {
		name     string
		pod      []string
		observed []string
		want     v1.ConditionStatus
	}{
		{"a started sidecar need not be ready", []string{"side s readiness", "main a"}, []string{"sandbox s", "s running"}, v1.ConditionTrue},
		{"init is at work in a pod that is deleted", []string{"init i", "main a", "deleted"}, []string{"sandbox s", "i running"}, v1.ConditionFalse},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := Generate(Input{Pod: podOf(t, always, c.pod...), Observed: seen(t, c.observed...), Ready: notReady, Now: noon})
			assert.Equal(t, c.want, condition(out.Conditions, v1.PodInitialized).Status)
		})
	}
}

// An override fails a pod that has not finished by itself before.
func TestOverrideAndTheEndOfContainers(t *testing.T) {
	early, late := noon.Add(-24*time.Hour), noon.Add(24*time.Hour)
	for _, c := range []struct {
		name     string
		policy   v1.RestartPolicy
		pod      []string
		observed []string
		stage    Stage
		at       time.Time
		phase    v1.PodPhase
		reason   string
	}{
		{"over before", never, []string{"main a"}, []string{"sandbox s", "a exited 0"}, StageSync, late, succeeded, ""},
		{"over after", never, []string{"main a"}, []string{"sandbox s", "a exited 0"}, StageSync, early, failed, "Evicted"},
		{"over at an unknown time", never, []string{"main a"}, []string{"sandbox s", "a exited 0"}, StageSync, time.Time{}, failed, "Evicted"},
		{"ended before, and restarts", always, []string{"main a"}, []string{"sandbox s", "a exited 0"}, StageSync, late, failed, "Evicted"},
		{"init failed before", never, []string{"init i", "main a"}, []string{"sandbox s", "i exited 1"}, StageSync, late, failed, ""},
		{"init failed after", never, []string{"init i", "main a"}, []string{"sandbox s", "i exited 1"}, StageSync, early, failed, "Evicted"},
		{"one never ran", never, []string{"main a", "main b"}, []string{"sandbox s", "a exited 0"}, StageTerminated, late, failed, ""},
		{"nothing ever ran", never, []string{"main a"}, nil, StageTerminated, time.Time{}, failed, "Evicted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := Generate(Input{
				Pod: podOf(t, c.policy, c.pod...), Observed: seen(t, c.observed...), Stage: c.stage, Now: noon,
				Override: &Override{Reason: "Evicted", Message: "no disk", At: c.at},
			})
			assert.Equal(t, c.phase, out.Phase)
			assert.Equal(t, c.reason, out.Reason)
		})
	}
}

// What the previous status has is kept before what the API server has. A field that neither has is
// computed.
func TestKeptBeforeTheAPIServers(t *testing.T) {
	long, recent := metav1.NewTime(noon.Add(-2*time.Hour)), metav1.NewTime(noon.Add(-time.Hour))
	pod := podOf(t, always, "main a")
	observed := seen(t, "sandbox s", "a running")
	previous := v1.PodStatus{Phase: running, Reason: "Ours"}
	pod.Status = v1.PodStatus{
		Phase: running, Reason: "Theirs", Message: "theirs", StartTime: &long, HostIP: "192.168.0.1", HostIPs: []v1.HostIP{{IP: "192.168.0.1"}},
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: long}},
	}
	out := Generate(Input{Pod: pod, Observed: observed, Previous: &previous, Now: noon})
	assert.Equal(t, []string{"Ours", ""}, []string{out.Reason, out.Message}, "never a mixture")
	assert.True(t, long.Equal(out.StartTime))
	assert.Empty(t, out.HostIP)
	assert.Empty(t, out.HostIPs)
	assert.True(t, long.Equal(&condition(out.Conditions, v1.PodReady).LastTransitionTime))
	assert.True(t, observed.Containers[0].StartedAt.Equal(out.ContainerStatuses[0].State.Running.StartedAt.Time))

	previous = v1.PodStatus{
		Phase: running, Message: "ours", StartTime: &recent, QOSClass: v1.PodQOSGuaranteed,
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse, LastTransitionTime: recent}},
	}
	out = Generate(Input{Pod: pod, Observed: observed, Previous: &previous, Now: noon})
	assert.Equal(t, []string{"", "ours"}, []string{out.Reason, out.Message})
	assert.True(t, recent.Equal(out.StartTime))
	assert.Equal(t, v1.PodQOSGuaranteed, out.QOSClass)
	assert.True(t, condition(out.Conditions, v1.PodReady).LastTransitionTime.Time.Equal(noon), "it was false in between")
}

// Devices are those of regular containers. Messages say why a state is not an exit.
func TestDevicesAndMessages(t *testing.T) {
	pod := podOf(t, never, "init i", "main a", "debug d")
	devices := func(container string) []v1.ResourceStatus {
		return []v1.ResourceStatus{{Name: v1.ResourceName("gpu-of-" + container)}}
	}
	before := generate(pod, seen(t, "sandbox s", "d exited 0", "a running", "i exited 0"))
	before.EphemeralContainerStatuses[0].Ready = true // by another agent
	before.EphemeralContainerStatuses[0].Started = new(true)
	before.InitContainerStatuses[0].State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
	out := Generate(Input{Pod: pod, Observed: seen(t, "sandbox s", "a unknown"), Previous: &before, Devices: devices, Now: noon})
	assert.Equal(t, devices("a"), out.ContainerStatuses[0].AllocatedResourcesStatus)
	assert.Empty(t, out.InitContainerStatuses[0].AllocatedResourcesStatus)
	assert.Empty(t, out.EphemeralContainerStatuses[0].AllocatedResourcesStatus)
	assert.False(t, out.EphemeralContainerStatuses[0].Ready)
	assert.Nil(t, out.EphemeralContainerStatuses[0].Started)
	assert.Equal(t, messageLost, out.ContainerStatuses[0].State.Terminated.Message)
	assert.Equal(t, messageInitRecordMissing, out.InitContainerStatuses[0].State.Terminated.Message)
}
