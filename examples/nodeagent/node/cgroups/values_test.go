// SPDX-License-Identifier: Apache-2.0

package cgroups_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
	"github.com/keelson-dev/keelson/internal/casetest"
)

// list returns a resource list of names and amounts.
func list(pairs ...string) v1.ResourceList {
	all := v1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		all[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return all
}

// asks returns a container with requests and limits.
func asks(requests, limits v1.ResourceList) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func podOf(containers ...v1.Container) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: containers}}
}

const mib = 1 << 20

func TestForPod(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	sidecar := asks(list("cpu", "100m", "memory", "10Mi"), list("cpu", "100m", "memory", "10Mi"))
	sidecar.RestartPolicy = &always
	both := list("cpu", "500m", "memory", "100Mi")
	for _, tt := range []struct {
		name string
		pod  *v1.Pod
		edit func(*v1.Pod)
		want cgroups.Values
	}{
		{"best effort", podOf(v1.Container{}), nil, cgroups.Values{CPUShares: 2, CPUQuota: -1, Memory: -1, PIDs: -1}},
		{"guaranteed", podOf(asks(both, both), asks(both, both)), nil, cgroups.Values{CPUShares: 1024, CPUQuota: 100000, Memory: 200 * mib, PIDs: -1}},
		{"a container without a limit of memory", podOf(asks(both, both), asks(nil, list("cpu", "1"))), nil, cgroups.Values{CPUShares: 1536, CPUQuota: 150000, Memory: -1, PIDs: -1}},
		{"requests alone", podOf(asks(both, nil)), nil, cgroups.Values{CPUShares: 512, CPUQuota: -1, Memory: -1, PIDs: -1}},
		{"no request of cpu", podOf(asks(list("memory", "1Mi"), nil)), nil, cgroups.Values{CPUShares: 2, CPUQuota: -1, Memory: -1, PIDs: -1}},
		{"a sidecar and a larger init container", podOf(asks(both, both)), func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{sidecar, asks(list("cpu", "2"), list("cpu", "2", "memory", "1Gi"))}
		}, cgroups.Values{CPUShares: 2150, CPUQuota: 210000, Memory: 1034 * mib, PIDs: -1}},
		{"an init container without limits", podOf(asks(both, both)), func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{}}
		}, cgroups.Values{CPUShares: 512, CPUQuota: -1, Memory: -1, PIDs: -1}},
		{"resources of the pod", podOf(v1.Container{}), func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "1"), Limits: list("cpu", "2", "memory", "1Gi")}
		}, cgroups.Values{CPUShares: 1024, CPUQuota: 200000, Memory: 1024 * mib, PIDs: -1}},
		{"overhead counts for limits that are set", podOf(asks(both, list("memory", "100Mi"))), func(p *v1.Pod) {
			p.Spec.Overhead = list("cpu", "250m", "memory", "20Mi")
		}, cgroups.Values{CPUShares: 768, CPUQuota: -1, Memory: 120 * mib, PIDs: -1}},
		{"a small limit of cpu", podOf(asks(nil, list("cpu", "1m", "memory", "1Mi"))), nil, cgroups.Values{CPUShares: 2, CPUQuota: 1000, Memory: mib, PIDs: -1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.edit != nil {
				tt.edit(tt.pod)
			}
			assert.Equal(t, tt.want, cgroups.ForPod(tt.pod, cgroups.Settings{}))
		})
	}
}

func TestForPodWithSettings(t *testing.T) {
	huge := asks(nil, list("cpu", "1", "memory", "1Gi", "hugepages-2Mi", "4Mi", "hugepages-64Ki", "1Mi"))
	got := cgroups.ForPod(podOf(huge, huge), cgroups.Settings{PodPIDs: 100, PageSizes: []string{"2MB", "1GB"}})
	assert.EqualValues(t, 100, got.PIDs)
	assert.Equal(t, map[string]int64{"2MB": 8 * mib, "1GB": 0}, got.HugePages, "a size that the machine has and the pod does not request is forbidden")
	assert.Equal(t, map[string]int64{"2MB": 0}, cgroups.ForPod(podOf(v1.Container{}), cgroups.Settings{PageSizes: []string{"2MB"}}).HugePages)
}

func TestForResources(t *testing.T) {
	all := list("cpu", "1500m", "memory", "1Gi", "pid", "1000", "hugepages-2Mi", "8Mi", "ephemeral-storage", "1Gi")
	s := cgroups.Settings{PodPIDs: 5, PageSizes: []string{"2MB", "1GB"}}
	assert.Equal(t, cgroups.Values{CPUShares: 1536, Memory: 1024 * mib, PIDs: 1000, HugePages: map[string]int64{"2MB": 8 * mib}}, cgroups.ForResources(all, s, false))
	assert.Equal(t, cgroups.Values{CPUShares: 1536}, cgroups.ForResources(all, s, true))
	assert.Zero(t, cgroups.ForResources(nil, s, false))
	assert.Equal(t, cgroups.Values{Memory: 5}, cgroups.ForResources(list("memory", "5"), cgroups.Settings{}, false))
}

// The widest values hold both: no limit is below either of them.
func TestWidest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	limit := func() int64 { return random.Int64N(5) - 1 }
	holds := func(w, v int64) bool { return w == -1 || v != -1 && w >= v }
	for range casetest.Rounds(10000) {
		a := cgroups.Values{CPUShares: random.Int64N(4), CPUQuota: limit(), Memory: limit(), PIDs: limit(), HugePages: map[string]int64{"2MB": random.Int64N(3)}}
		b := cgroups.Values{CPUShares: random.Int64N(4), CPUQuota: limit(), Memory: limit(), PIDs: limit()}
		w := cgroups.Widest(a, b)
		assert.Equal(t, w, cgroups.Widest(b, a))
		assert.Equal(t, w, cgroups.Widest(w, a))
		for _, v := range []cgroups.Values{a, b} {
			assert.True(t, w.CPUShares >= v.CPUShares && holds(w.CPUQuota, v.CPUQuota) && holds(w.Memory, v.Memory) && holds(w.PIDs, v.PIDs))
			assert.GreaterOrEqual(t, w.HugePages["2MB"], v.HugePages["2MB"])
		}
	}
}
