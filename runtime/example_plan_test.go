// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

// A plan depends only on the wanted pod and the observed status, so plans can be printed, compared
// and repeated from a record.
func ExamplePlan() {
	pod := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyOnFailure,
		Containers:    []v1.Container{{Name: "job", Image: "job:1"}, {Name: "web", Image: "web:2"}, {Name: "log", Image: "log:1"}},
	}}
	status := &runtime.PodStatus{
		Sandboxes: []runtime.SandboxStatus{{ID: "s", Ready: true}},
		Containers: []runtime.ContainerStatus{
			{ID: runtime.ContainerID{Runtime: "fake", ID: "w0"}, Name: "web", Sandbox: "s", State: runtime.StateRunning,
				Hash: containermeta.Hash(&v1.Container{Name: "web", Image: "web:1"})},
			{ID: runtime.ContainerID{Runtime: "fake", ID: "j0"}, Name: "job", Sandbox: "s", State: runtime.StateExited, ExitCode: 3},
		},
	}
	plan := runtime.Plan(runtime.PlanInput{Pod: pod, Status: status})
	fmt.Print(plan.String())

	plan = runtime.Plan(runtime.PlanInput{Pod: pod, Status: nil})
	fmt.Print("--\n", plan.String())
	// Output:
	// kill web (w0): definition changed, will be restarted
	// start containers[0] job: exited with code 3
	// start containers[1] web: definition changed
	// start containers[2] log: first start
	// --
	// kill pod: the pod has no sandbox
	// create sandbox 0: the pod has no sandbox
	// start containers[0] job: first start
	// start containers[1] web: first start
	// start containers[2] log: first start
}
