// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// formed returns a pod with an init container, a sidecar and two containers, and its status.
func formed() (*v1.Pod, *v1.PodStatus) {
	pod := Pod("p", InitContainer("i"), Sidecar("s"), Container("d"), Container("c"))
	now := metav1.NewTime(time.Unix(1000, 0))
	runs := func(name string) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, ContainerID: "fake://" + name, Ready: true, Started: new(true), State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}}}
	}
	ended := v1.ContainerStatus{Name: "i", ContainerID: "fake://i", Started: new(false), State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}}
	status := &v1.PodStatus{
		Phase: v1.PodRunning, InitContainerStatuses: []v1.ContainerStatus{ended, runs("s")}, ContainerStatuses: []v1.ContainerStatus{runs("c"), runs("d")},
		PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}}, HostIP: "10.1.0.1", HostIPs: []v1.HostIP{{IP: "10.1.0.1"}}, ObservedGeneration: 3,
	}
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.PodReadyToStartContainers, v1.ContainersReady, v1.PodReady} {
		status.Conditions = append(status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue, ObservedGeneration: 3})
	}
	return pod, status
}

// TestForms puts a single fault into a status.
func TestForms(t *testing.T) {
	for want, distort := range map[string]func(s *v1.PodStatus){
		"":                         func(*v1.PodStatus) {},
		"container c has 0 states": func(s *v1.PodStatus) { s.ContainerStatuses[0].State = v1.ContainerState{} },
		"container c has 2 states": func(s *v1.PodStatus) { s.ContainerStatuses[0].State.Waiting = &v1.ContainerStateWaiting{} },
		"container c has a last state that is no end": func(s *v1.PodStatus) {
			s.ContainerStatuses[0].LastTerminationState.Waiting = &v1.ContainerStateWaiting{}
		},
		"container i has an end without a reason":                func(s *v1.PodStatus) { s.InitContainerStatuses[0].State.Terminated.Reason = "" },
		"container i has ended with code 3 for reason Completed": func(s *v1.PodStatus) { s.InitContainerStatuses[0].State.Terminated.ExitCode = 3 },
		"before its start at":                                    func(s *v1.PodStatus) { s.InitContainerStatuses[0].State.Terminated.FinishedAt = metav1.Unix(1, 0) },
		"container c runs without an ID":                         func(s *v1.PodStatus) { s.ContainerStatuses[0].ContainerID = "" },
		"container c is ready and has not started":               func(s *v1.PodStatus) { s.ContainerStatuses[0].Started = new(false) },
		"container c is ready and does not run": func(s *v1.PodStatus) {
			s.ContainerStatuses[0].State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
		},
		"the pod is Ready, and its containers are not": func(s *v1.PodStatus) {
			s.InitContainerStatuses[1].Ready = false
			s.Conditions[3].Status, s.Conditions[3].Reason = v1.ConditionFalse, "ContainersNotReady"
		},
		"its init containers are [i s], and the statuses are of [s]":       func(s *v1.PodStatus) { s.InitContainerStatuses = s.InitContainerStatuses[1:] },
		"its containers are [c d], and the statuses are of [c]":            func(s *v1.PodStatus) { s.ContainerStatuses = s.ContainerStatuses[:1] },
		"a condition stands twice":                                         func(s *v1.PodStatus) { s.Conditions = append(s.Conditions, s.Conditions[0]) },
		"condition Initialized is False for reason \"\"":                   func(s *v1.PodStatus) { s.Conditions[1].Status = v1.ConditionFalse },
		"condition Ready has generation 2, and the status 3":               func(s *v1.PodStatus) { s.Conditions[4].ObservedGeneration = 2 },
		"all containers are ready is false, and condition ContainersReady": func(s *v1.PodStatus) { s.InitContainerStatuses[1].Ready = false },
		"the first of its addresses":                                       func(s *v1.PodStatus) { s.PodIP = "10.0.0.2" },
		"the first of them":                                                func(s *v1.PodStatus) { s.HostIPs = nil },
	} {
		pod, status := formed()
		distort(status)
		err := checkForms(History{Statuses: []Published{{Pod: pod, Status: *status}}})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
