// SPDX-License-Identifier: Apache-2.0

package cgroups_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
)

// Example computes the cgroup of a pod: its name with systemd, and its values.
func Example() {
	limits := v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("64Mi")}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Limits: limits}}}}}
	pod.UID = "8a1f"
	path, err := cgroups.Path(cgroups.Systemd, "kubepods", "pod"+string(pod.UID))
	if err != nil {
		fmt.Println(err)
		return
	}
	v := cgroups.ForPod(pod, cgroups.Settings{PodPIDs: 100})
	fmt.Println(path)
	fmt.Println(v.CPUShares, v.CPUQuota, v.Memory, v.PIDs)
	// Output:
	// /kubepods.slice/kubepods-pod8a1f.slice
	// 512 50000 67108864 100
}
