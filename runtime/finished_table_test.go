// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

func TestFinished(t *testing.T) {
	ended := func(reason string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1, Reason: reason}}
	}
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	waiting := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
	made := &runtime.ContainerStatus{State: runtime.StateCreated}
	condition := func(kind v1.PodConditionType, status v1.ConditionStatus) []v1.PodCondition {
		return []v1.PodCondition{{Type: kind, Status: status}}
	}
	for _, tc := range []struct {
		name        string
		container   string // "" is "once"
		state, last v1.ContainerState
		conditions  []v1.PodCondition
		made        *runtime.ContainerStatus
		want        bool
	}{
		{name: "no state"},
		{name: "has ended", state: ended("Error"), want: true},
		{name: "runs, and its record was removed", state: running, want: true},
		{name: "waits after its end", state: waiting, last: ended("Error"), want: true},
		{name: "waits for its first start", state: waiting},
		{name: "has ended, and its successor never ran", state: ended("Error"), made: made, want: true},
		{name: "runs, and its successor never ran", state: running, made: made},
		{name: "waits after its end, and its successor never ran", state: waiting, last: ended("Error"), made: made},
		{name: "runs after its end in another life", state: running, last: ended("Error"), want: true},
		{name: "ended by a restart of all containers", state: ended("RestartingAllContainers")},
		{name: "during a restart of all containers", state: ended("Error"), conditions: condition(v1.AllContainersRestarting, v1.ConditionTrue)},
		{name: "after a restart of all containers", state: ended("Error"), conditions: condition(v1.AllContainersRestarting, v1.ConditionFalse), want: true},
		{name: "with another condition", state: ended("Error"), conditions: condition(v1.PodReady, v1.ConditionTrue), want: true},
		{name: "a container that is restarted", container: "server", state: ended("Error")},
		{name: "an init container", container: "init", state: ended("Error")},
		{name: "a container of another pod", container: "stranger", state: ended("Error")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := neverAgain()
			initial("init")(pod)
			pod.Spec.InitContainers[0].RestartPolicy = new(v1.ContainerRestartPolicyNever)
			name := tc.container
			if name == "" {
				name = "once"
			}
			status := &v1.PodStatus{
				Conditions:        tc.conditions,
				ContainerStatuses: []v1.ContainerStatus{{Name: "first"}, {Name: name, State: tc.state, LastTerminationState: tc.last}},
			}
			assert.Equal(t, tc.want, runtime.Finished(pod, status, name, tc.made))
			assert.False(t, runtime.Finished(pod, &v1.PodStatus{}, name, tc.made), "without a status")
		})
	}
}
