// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/runtime"
)

// list makes "cpu=100m", "memory=1Gi"… a ResourceList.
func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func requires(requests, limits v1.ResourceList) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: requests, Limits: limits}
}

func TestCPUShares(t *testing.T) {
	for milli, want := range map[int64]int64{
		0: 2, 1: 2, 2: 2, 3: 3, 100: 102, 500: 512, 1000: 1024, 1500: 1536, 256000: 262144, 300000: 262144,
		math.MaxInt64: 262144, -5: 2,
	} {
		assert.Equal(t, want, podresources.Shares(milli), "%dm", milli)
	}
}

func TestCPUQuota(t *testing.T) {
	for milli, want := range map[int64]int64{
		0: 0, 1: 1000, 9: 1000, 10: 1000, 11: 1100, 100: 10000, 1000: 100000, 2500: 250000, -1: 0, math.MaxInt64: 0,
	} {
		assert.Equal(t, want, podresources.Quota(milli), "%dm", milli)
	}
}

// The reported resources equal the requested resources, up to the kernel's units.
func TestCPURoundTrip(t *testing.T) {
	for milli := int64(3); milli < 5000; milli++ {
		assert.InDelta(t, milli, milliOfShares(podresources.Shares(milli)), 1)
	}
	for milli := int64(10); milli < 5000; milli++ {
		assert.Equal(t, milli, milliOfQuota(podresources.Quota(milli), podresources.QuotaPeriod))
	}
	assert.Zero(t, milliOfShares(2))
	assert.Zero(t, milliOfQuota(-1, podresources.QuotaPeriod))
	assert.Zero(t, milliOfQuota(1000, 0))
}

func TestContainerResources(t *testing.T) {
	for _, tt := range []struct {
		name string
		c, p v1.ResourceRequirements
		want podresources.Demand
	}{
		{name: "nothing"},
		{"requests and limits", requires(list("cpu", "100m", "memory", "1Mi"), list("cpu", "1", "memory", "2Mi")), v1.ResourceRequirements{}, demand(100, 1000, 1<<20, 2<<20)},
		{"a limit is a request, too", requires(nil, list("cpu", "1", "memory", "2Mi")), v1.ResourceRequirements{}, demand(1000, 1000, 2<<20, 2<<20)},
		{"an explicit request of 0 stays", requires(list("cpu", "0"), list("cpu", "1")), v1.ResourceRequirements{}, demand(0, 1000, 0, 0)},
		{"the pod's limit stands in", requires(list("cpu", "100m"), nil), requires(nil, list("cpu", "2", "memory", "4Mi")), demand(100, 2000, 0, 4<<20)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := testPod("u", "main")
			pod.Spec.Containers[0].Resources = tt.c
			if tt.p.Limits != nil {
				pod.Spec.Resources = &tt.p
			}
			got := containerResources(pod, &pod.Spec.Containers[0], runtime.GroupRegular, node{memory: 1 << 30})
			assert.Equal(t, podresources.Shares(tt.want.CPURequest), got.GetCpuShares())
			assert.Equal(t, podresources.Quota(tt.want.CPULimit), got.GetCpuQuota())
			assert.Equal(t, tt.want.MemoryLimit, got.GetMemoryLimitInBytes())
			assert.EqualValues(t, 100000, got.GetCpuPeriod())
			assert.Nil(t, got.GetUnified())
		})
	}
	pod := testPod("u", "main")
	got := containerResources(pod, &pod.Spec.Containers[0], runtime.GroupRegular, node{memory: 1 << 30, cgroup2: true})
	assert.Equal(t, map[string]string{"memory.oom.group": "1"}, got.GetUnified())
}

func TestHugePages(t *testing.T) {
	got := hugePageLimits(list("hugepages-2Mi", "6Mi", "cpu", "1", "hugepages-odd", "1"), []string{"1GB", "2MB"})
	assert.Equal(t, []*api.HugepageLimit{{PageSize: "1GB"}, {PageSize: "2MB", Limit: 6 << 20}}, got)
	for dir, want := range map[string]string{
		"hugepages-2048kB": "2MB", "hugepages-1048576kB": "1GB", "hugepages-64kB": "64KB", "hugepages-xkB": "", "nothing": "", "hugepages--5kB": "",
	} {
		size, _ := hugePageSize(dir)
		assert.Equal(t, want, size, dir)
	}
}

func TestPodDemand(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	c := func(cpu string, policy *v1.ContainerRestartPolicy) v1.Container {
		return v1.Container{Resources: requires(list("cpu", cpu), list("cpu", cpu, "memory", "1Mi")), RestartPolicy: policy}
	}
	pod := &v1.Pod{}
	pod.Spec.InitContainers = []v1.Container{c("3", nil), c("500m", &always), c("2", nil)}
	pod.Spec.Containers = []v1.Container{c("1", nil), c("100m", nil)}
	assert.EqualValues(t, 3000, podresources.OfPod(pod).CPURequest, "the first init container, alone")
	pod.Spec.InitContainers[0] = c("2", nil)
	assert.EqualValues(t, 2500, podresources.OfPod(pod).CPURequest, "the last init container beside the sidecar")
	pod.Spec.InitContainers[2] = c("1", nil)
	pod.Spec.Containers = append(pod.Spec.Containers, c("1", nil))
	assert.Equal(t, demand(2600, 2600, 4<<20, 4<<20), podresources.OfPod(pod), "the sidecar and the regular ones")
	pod.Spec.Containers[0].Resources.Limits = nil
	assert.Equal(t, demand(2600, 0, 3<<20, 0), podresources.OfPod(pod), "one without a limit")
	whole := requires(list("cpu", "4"), list("memory", "1Gi"))
	pod.Spec.Resources = &whole
	assert.Equal(t, demand(4000, 0, 1<<30, 1<<30), podresources.OfPod(pod), "the pod's own")
}

func TestOverhead(t *testing.T) {
	pod := testPod("u", "main")
	_, overhead := podResources(pod)
	assert.Nil(t, overhead)
	pod.Spec.Overhead = list("cpu", "250m", "memory", "1Mi")
	_, overhead = podResources(pod)
	assert.EqualValues(t, 25000, overhead.GetCpuQuota())
	assert.EqualValues(t, 1<<20, overhead.GetMemoryLimitInBytes())
}

func TestOOMScore(t *testing.T) {
	const capacity = 8 << 30
	always := v1.ContainerRestartPolicyAlways
	critical := int32(2_000_001_000)
	memory := func(m string) v1.ResourceRequirements { return requires(list("memory", m), nil) }
	for _, tt := range []struct {
		name  string
		edit  func(pod *v1.Pod)
		group runtime.Group
		want  int64
	}{
		{"best effort", func(*v1.Pod) {}, runtime.GroupRegular, 1000},
		{"node critical", func(p *v1.Pod) { p.Spec.Priority = &critical }, runtime.GroupRegular, -997},
		{"guaranteed", func(p *v1.Pod) {
			p.Spec.Containers[0].Resources = requires(nil, list("cpu", "1", "memory", "1Gi"))
		}, runtime.GroupRegular, -997},
		{"half of the memory", func(p *v1.Pod) { p.Spec.Containers[0].Resources = memory("4Gi") }, runtime.GroupRegular, 500},
		{"next to nothing", func(p *v1.Pod) { p.Spec.Containers[0].Resources = memory("1Ki") }, runtime.GroupRegular, 999},
		{"more than there is", func(p *v1.Pod) { p.Spec.Containers[0].Resources = memory("9Gi") }, runtime.GroupRegular, 3},
		{"CPU only", func(p *v1.Pod) { p.Spec.Containers[0].Resources = requires(list("cpu", "1"), nil) }, runtime.GroupRegular, 999},
		{"the API's word", func(p *v1.Pod) { p.Status.QOSClass = v1.PodQOSGuaranteed }, runtime.GroupRegular, -997},
		{"a share of what the pod has", func(p *v1.Pod) {
			whole := memory("4Gi")
			p.Spec.Resources = &whole
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "other"})
		}, runtime.GroupRegular, 750},
		{"a sidecar, no earlier than its pod", func(p *v1.Pod) {
			p.Spec.Containers[0].Resources = memory("4Gi")
			p.Spec.InitContainers = []v1.Container{{Name: "side", RestartPolicy: &always, Resources: memory("1Gi")}}
		}, runtime.GroupInit, 500},
		{"a greedy sidecar", func(p *v1.Pod) {
			p.Spec.Containers[0].Resources = memory("1Gi")
			p.Spec.InitContainers = []v1.Container{{Name: "side", RestartPolicy: &always, Resources: memory("4Gi")}}
		}, runtime.GroupInit, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := testPod("u", "main")
			tt.edit(pod)
			c := runtime.Ref{Group: tt.group}.Container(pod)
			assert.Equal(t, tt.want, oomScoreAdj(pod, c, tt.group, capacity))
		})
	}
	assert.EqualValues(t, 3, burstableScore(1, 0), "no capacity known")
}

func TestMemTotal(t *testing.T) {
	n, err := parseMeminfo("MemFree:  1 kB\nMemTotal:       16384 kB\n", "MemTotal")
	assert.NoError(t, err)
	assert.EqualValues(t, 16<<20, n)
	for _, bad := range []string{"", "MemTotal: x kB", "MemTotal: 5 MB", "MemTotal: -1 kB"} {
		_, err := parseMeminfo(bad, "MemTotal")
		assert.Error(t, err, bad)
	}
}

func TestUpdateSaysWhatIsNotLimited(t *testing.T) {
	values := func(r *api.LinuxContainerResources) []int64 {
		return []int64{r.GetCpuShares(), r.GetCpuQuota(), r.GetCpuPeriod(), r.GetMemoryLimitInBytes()}
	}
	assert.Equal(t, []int64{2, -1, 100000, -1}, values(updateOf(podresources.Demand{}, node{})))
	assert.Equal(t, []int64{512, 100000, 100000, 1 << 20}, values(updateOf(podresources.Demand{CPURequest: 500, CPULimit: 1000, MemoryLimit: 1 << 20}, node{})))
	assert.Empty(t, resourcesOf(updateOf(podresources.Demand{}, node{})).Limits, "what is not limited is not reported as limited")
}

// demand returns a Demand of thousandths of a CPU and bytes: request and limit of each.
func demand(cpuRequest, cpuLimit, memoryRequest, memoryLimit int64) podresources.Demand {
	return podresources.Demand{CPURequest: cpuRequest, CPULimit: cpuLimit, MemoryRequest: memoryRequest, MemoryLimit: memoryLimit}
}
