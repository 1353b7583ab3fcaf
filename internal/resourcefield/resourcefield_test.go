// SPDX-License-Identifier: Apache-2.0

package resourcefield_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/resourcefield"
)

func list(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// TestValue: the container's value, then the pod's limit, then the node's, for each kind of
// resource.
func TestValue(t *testing.T) {
	allocatable := list("cpu", "3900m", "memory", "7Gi", "hugepages-2Mi", "1Gi", "ephemeral-storage", "0")
	for _, tc := range []struct {
		name, resource, divisor string
		container, pod          v1.ResourceList // limits
		want, err               string
	}{
		{name: "set", resource: "limits.cpu", container: list("cpu", "1500m"), want: "2"},
		{name: "in thousandths", resource: "limits.cpu", divisor: "1m", container: list("cpu", "1500m"), want: "1500"},
		{name: "beyond an int64 of thousandths", resource: "limits.memory", divisor: "1m", container: list("memory", "7Ei"), want: "8070450532247928832000"},
		{name: "the pod's", resource: "limits.cpu", divisor: "1m", pod: list("cpu", "700m"), want: "700"},
		{name: "its own before the pod's", resource: "limits.memory", container: list("memory", "1Ki"), pod: list("memory", "2Ki"), want: "1024"},
		{name: "zero is not set", resource: "limits.cpu", divisor: "1m", container: list("cpu", "0"), pod: list("cpu", "0"), want: "3900"},
		{name: "the node's", resource: "limits.memory", divisor: "1Gi", want: "7"},
		{name: "the node has none to give", resource: "limits.ephemeral-storage", want: "0"},
		{name: "huge pages", resource: "limits.hugepages-2Mi", divisor: "1Mi", container: list("hugepages-2Mi", "4Mi"), want: "4"},
		{name: "the pod's huge pages", resource: "limits.hugepages-2Mi", divisor: "1Mi", pod: list("hugepages-2Mi", "6Mi"), want: "6"},
		{name: "huge pages that are not asked for, on a node that has some", resource: "limits.hugepages-2Mi", want: "0"},
		{name: "a request that is not set", resource: "requests.cpu", pod: list("cpu", "1"), want: "0"},
		{name: "no such kind", resource: "claims.cpu", err: `unsupported resource "claims.cpu"`},
		{name: "no such resource", resource: "limits.nvidia.com/gpu", err: `unsupported resource "limits.nvidia.com/gpu"`},
		{name: "a negative divisor", resource: "limits.cpu", divisor: "-1", err: "the divisor is negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ref := &v1.ResourceFieldSelector{Resource: tc.resource}
			if tc.divisor != "" {
				ref.Divisor = resource.MustParse(tc.divisor)
			}
			pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
			pod.Spec.Containers[0].Resources.Limits = tc.container
			if tc.pod != nil {
				pod.Spec.Resources = &v1.ResourceRequirements{Limits: tc.pod}
			}
			got, err := resourcefield.Value(pod, &pod.Spec.Containers[0], ref, allocatable)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	_, err := resourcefield.Value(&v1.Pod{}, &v1.Container{}, &v1.ResourceFieldSelector{Resource: "limits.cpu"}, nil)
	require.EqualError(t, err, "limits.cpu is not set, and the allocatable resources of this node are not known")
}
