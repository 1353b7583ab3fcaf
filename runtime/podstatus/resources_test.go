// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// list reads "cpu=1 memory=1Gi".
func list(text string) v1.ResourceList {
	out := v1.ResourceList{}
	for word := range strings.FieldsSeq(text) {
		name, amount, _ := strings.Cut(word, "=")
		out[v1.ResourceName(name)] = resource.MustParse(amount)
	}
	return out
}

func needs(requests, limits string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

func TestQOSClass(t *testing.T) {
	full := needs("cpu=1 memory=1Gi", "cpu=1 memory=1Gi")
	for _, c := range []struct {
		name       string
		init, main []v1.ResourceRequirements
		pod        *v1.ResourceRequirements
		want       v1.PodQOSClass
	}{
		{"nothing", nil, []v1.ResourceRequirements{{}, {}}, nil, v1.PodQOSBestEffort},
		{"zeros", nil, []v1.ResourceRequirements{needs("cpu=0", "memory=0")}, nil, v1.PodQOSBestEffort},
		{"other resources", nil, []v1.ResourceRequirements{needs("x.io/gpu=1", "ephemeral-storage=1Gi")}, nil, v1.PodQOSBestEffort},
		{"requests equal limits", nil, []v1.ResourceRequirements{full, full}, nil, v1.PodQOSGuaranteed},
		{"equal in another notation", nil, []v1.ResourceRequirements{needs("cpu=1000m memory=1024Mi", "cpu=1 memory=1Gi")}, nil, v1.PodQOSGuaranteed},
		{"limits only", nil, []v1.ResourceRequirements{needs("", "cpu=1 memory=1Gi")}, nil, v1.PodQOSGuaranteed},
		{"a request of zero is not unset", nil, []v1.ResourceRequirements{needs("cpu=0 memory=1Gi", "cpu=1 memory=1Gi")}, nil, v1.PodQOSBurstable},
		{"requests below limits", nil, []v1.ResourceRequirements{needs("cpu=1 memory=1Gi", "cpu=2 memory=1Gi")}, nil, v1.PodQOSBurstable},
		{"no memory limit", nil, []v1.ResourceRequirements{needs("cpu=1", "cpu=1")}, nil, v1.PodQOSBurstable},
		{"requests only", nil, []v1.ResourceRequirements{needs("cpu=1 memory=1Gi", "")}, nil, v1.PodQOSBurstable},
		{"one container without", nil, []v1.ResourceRequirements{full, {}}, nil, v1.PodQOSBurstable},
		{"an init container without", []v1.ResourceRequirements{{}}, []v1.ResourceRequirements{full}, nil, v1.PodQOSBurstable},
		{"only an init container with", []v1.ResourceRequirements{full}, []v1.ResourceRequirements{{}}, nil, v1.PodQOSBurstable},
		{"the pod as a whole, guaranteed", nil, []v1.ResourceRequirements{{}}, &full, v1.PodQOSGuaranteed},
		{"the pod as a whole, burstable", nil, []v1.ResourceRequirements{full}, new(needs("cpu=1", "")), v1.PodQOSBurstable},
		{"the pod as a whole says nothing", nil, []v1.ResourceRequirements{full}, new(needs("", "")), v1.PodQOSGuaranteed},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{Resources: c.pod}}
			for _, r := range c.init {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Resources: r})
			}
			for _, r := range c.main {
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: r})
			}
			assert.Equal(t, c.want, QOSClass(pod))
			assert.Equal(t, c.want, generate(pod, nil).QOSClass)
			pod.Status.QOSClass = "First"
			assert.Equal(t, v1.PodQOSClass("First"), generate(pod, nil).QOSClass, "it never changes")
		})
	}
}

func TestContainerResources(t *testing.T) {
	for _, c := range []struct {
		name           string
		given          v1.ResourceRequirements
		observed       string
		actual         *v1.ResourceRequirements
		requests, want string // want: limits
	}{
		{"as allocated", needs("cpu=1", "cpu=2 memory=1Gi"), "a running", nil, "cpu=1", "cpu=2 memory=1Gi"},
		{"actual, running", needs("cpu=1", "cpu=2 memory=1Gi"), "a running", new(needs("cpu=3", "cpu=4 memory=2Gi")), "cpu=3", "cpu=4 memory=2Gi"},
		{"actual, not running", needs("cpu=1", "cpu=2 memory=1Gi"), "a exited 0", new(needs("cpu=3", "cpu=4 memory=2Gi")), "cpu=1", "cpu=2 memory=1Gi"},
		{"only what was given", needs("cpu=1", ""), "a running", new(needs("cpu=3 memory=1Gi", "cpu=4")), "cpu=3", ""},
		{"the kernel's least is no change", needs("cpu=1m", "cpu=5m"), "a running", new(needs("cpu=2m", "cpu=10m")), "cpu=1m", "cpu=5m"},
		{"just above the kernel's least", needs("cpu=1", "cpu=1"), "a running", new(needs("cpu=3m", "cpu=11m")), "cpu=3m", "cpu=11m"},
		{"no memory is no value", needs("memory=1Gi", "memory=1Gi"), "a running", new(needs("memory=0", "memory=0")), "memory=1Gi", "memory=1Gi"},
		{"limits only", needs("", "cpu=1"), "a running", nil, "", "cpu=1"},
		{"the rest is as given", needs("x.io/gpu=1", "x.io/gpu=1"), "a running", new(needs("x.io/gpu=2", "x.io/gpu=2")), "x.io/gpu=1", "x.io/gpu=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod, observed := podOf(t, always, "main a"), seen(t, c.observed)
			pod.Spec.Containers[0].Resources, observed.Containers[0].Resources = c.given, c.actual
			before := pod.DeepCopy()
			got := generate(pod, observed).ContainerStatuses[0]
			assertAmounts(t, c.requests, got.Resources.Requests)
			assertAmounts(t, c.want, got.Resources.Limits)
			assert.Equal(t, c.given.Requests, got.AllocatedResources)
			assert.Equal(t, before, pod)
		})
	}
	got := generate(podOf(t, always, "main a"), seen(t, "a running")).ContainerStatuses[0]
	assert.Nil(t, got.Resources, "none given, none shown")
}
