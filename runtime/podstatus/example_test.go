// SPDX-License-Identifier: Apache-2.0

package podstatus_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// A container crashes and waits for its restart: the pod is Running, not ready,
// and how the container ended is its last state.
func ExampleGenerate() {
	pod := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyAlways,
		Containers:    []v1.Container{{Name: "web", Image: "web:1"}},
	}}
	observed := &runtime.PodStatus{
		Sandboxes: []runtime.SandboxStatus{{ID: "s", Ready: true}},
		Containers: []runtime.ContainerStatus{{
			ID: runtime.ContainerID{Runtime: "fake", ID: "w4"}, Name: "web", Sandbox: "s",
			State: runtime.StateExited, ExitCode: 3, RestartCount: 4,
		}},
	}
	status := podstatus.Generate(podstatus.Input{
		Pod: pod, Observed: observed, HostIPs: []string{"192.168.0.7"}, Now: time.Unix(0, 0),
		StartFailures: runtime.StartFailures{"web": {Reason: "CrashLoopBackOff", Message: "back-off 80s"}},
	})
	web := status.ContainerStatuses[0]
	fmt.Println(status.Phase, status.HostIP)
	fmt.Println(web.Name, web.State.Waiting.Reason, web.RestartCount, "restarts, last exit", web.LastTerminationState.Terminated.ExitCode)
	for _, c := range status.Conditions {
		fmt.Printf("%s=%s\n", c.Type, c.Status)
	}
	// Output:
	// Running 192.168.0.7
	// web CrashLoopBackOff 4 restarts, last exit 3
	// PodReadyToStartContainers=True
	// Initialized=True
	// Ready=False
	// ContainersReady=False
	// PodScheduled=True
}
