// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPodsShareTheirSpecs: pods of equal templates share the memory of their specs and labels, also on different
// nodes, and no pod gets a part of another template.
func TestPodsShareTheirSpecs(t *testing.T) {
	decoded := func(node, uid, cpu, label string) *v1.Pod {
		pod := podOn(node, uid)
		pod.Labels = map[string]string{"app": label}
		pod.Spec.Containers = []v1.Container{{Name: "c", Image: "x", Env: []v1.EnvVar{{Name: "HOST", Value: uid}},
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}
		return pod
	}
	var s shapes
	one, two, other := s.slim(decoded("a", "1", "1", "l")), s.slim(decoded("b", "2", "1000m", "l")), s.slim(decoded("a", "3", "2", "m"))
	assert.Same(t, &one.Spec.Containers[0], &two.Spec.Containers[0])
	assert.Equal(t, []string{"a", "b", "a"}, []string{one.Spec.NodeName, two.Spec.NodeName, other.Spec.NodeName})
	assert.Equal(t, "2", other.Spec.Containers[0].Resources.Requests.Cpu().String())
	assert.Equal(t, "1", s.slim(decoded("a", "4", "1", "l")).Spec.Containers[0].Resources.Requests.Cpu().String())
	two.Labels["app"] = "written" // only to see that it is the same map
	assert.Equal(t, "written", one.Labels["app"])
	assert.Equal(t, "m", other.Labels["app"])
	assert.Same(t, unsafe.StringData(one.Spec.NodeName), unsafe.StringData(other.Spec.NodeName))
	assert.Empty(t, s.slim(podOn("c", "5")).Spec.Containers)
	for i := range 3 * mostShapes {
		pod := decoded("a", "6", "1", "l")
		pod.Spec.Containers[0].Image = fmt.Sprint(i)
		assert.Equal(t, fmt.Sprint(i), s.slim(pod).Spec.Containers[0].Image)
		assert.LessOrEqual(t, len(s.specs), mostShapes)
	}
}
