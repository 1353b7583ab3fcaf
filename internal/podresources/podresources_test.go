// SPDX-License-Identifier: Apache-2.0

package podresources_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podresources"
)

// The sums of pods and the values of containers have their tests in runtime/cri.
func TestOverheadIsAddedToLimitsThatAreSet(t *testing.T) {
	overhead := v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("10")}
	d := podresources.Demand{CPURequest: 100, MemoryRequest: 5, MemoryLimit: 20}
	assert.Equal(t, podresources.Demand{CPURequest: 350, MemoryRequest: 15, MemoryLimit: 30}, d.WithOverhead(overhead))
	assert.Equal(t, d, d.WithOverhead(nil))
}

// The limits of a pod with a container that may have everything are not those of its other container.
func TestMoreThanANumberHolds(t *testing.T) {
	limits := func(memory string) v1.Container {
		return v1.Container{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse(memory)}}}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{limits("10E"), limits("10E"), limits("1Gi")}}}
	assert.EqualValues(t, math.MaxInt64, podresources.OfPod(pod).MemoryLimit)
	assert.Equal(t, v1.PodQOSGuaranteed, podresources.QOS(pod))
}

// The status of a pod and its cgroup have the same class, also if the pod-level resources decide about
// huge pages alone.
func TestHugePagesOfAPodDoNotDecideItsClass(t *testing.T) {
	pod := &v1.Pod{}
	pod.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}}
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}}
	assert.Equal(t, v1.PodQOSBurstable, podresources.QOS(pod))
	pod.Status.QOSClass = v1.PodQOSGuaranteed
	assert.Equal(t, v1.PodQOSGuaranteed, podresources.QOS(pod), "the class never changes")
}
