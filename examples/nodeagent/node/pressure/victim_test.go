// SPDX-License-Identifier: Apache-2.0

package pressure_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
)

func TestVictim(t *testing.T) {
	p := policy(t, pressure.Settings{Hard: texts{"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "pid.available": "10%"}})
	threshold := map[pressure.Signal]pressure.Threshold{}
	for _, one := range p.Thresholds {
		threshold[one.Signal] = one
	}
	r := pressure.Reading{Available: 50 * mib, Capacity: 1000 * mib}
	ranked := []pressure.Usage{
		using(900, pod("static", static)), using(900, pod("system", priority(2_000_000_000))), using(300, pod("web", requests(v1.ResourceMemory, "100Mi"))), using(1, pod("other")),
	}
	e, found := p.Victim(threshold[pressure.MemoryAvailable], pressure.Layout{}, ranked, r)
	require.True(t, found)
	require.Equal(t, pressure.Eviction{
		Pod: ranked[2].Pod, Grace: new(int64(1)), Cause: "memory.available", IsDisruption: true,
		Message:     "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container c was using 300Mi, request is 100Mi, has larger consumption of memory. ",
		Annotations: map[string]string{"offending_containers": "c", "offending_containers_usage": "300Mi", "starved_resource": "memory"},
	}, e)
	_, found = p.Victim(threshold[pressure.MemoryAvailable], pressure.Layout{}, ranked[:2], r)
	require.False(t, found, "critical pods stay")

	e, _ = p.Victim(threshold[pressure.NodeFSAvailable], pressure.Layout{}, []pressure.Usage{storing(20, 10, 500, pod("a"))}, pressure.Reading{Available: 30 * mib, Capacity: 1000 * mib})
	require.Contains(t, e.Message, "The node was low on resource: ephemeral-storage. Threshold quantity: 104857601, available: 30Mi. ")
	require.Contains(t, e.Message, "Container c was using 30Mi, request is 0, has larger consumption of ephemeral-storage. ", "volumes are not the container's")
	e, _ = p.Victim(threshold[pressure.NodeFSInodesFree], pressure.Layout{}, []pressure.Usage{storing(20, 10, 500, pod("a"))}, pressure.Reading{Available: 3000, Capacity: 200_000})
	require.Equal(t, "The node was low on resource: inodes. Threshold quantity: 10000, available: 3k. ", e.Message)
	e, _ = p.Victim(threshold[pressure.PIDAvailable], pressure.Layout{}, []pressure.Usage{storing(20, 10, 500, pod("a"))}, pressure.Reading{Available: 3, Capacity: 1000})
	require.Equal(t, "The node was low on resource: pids. Threshold quantity: 100, available: 3. ", e.Message)
}

func TestGraceOfAVictim(t *testing.T) {
	own := func(seconds int64) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	hard := pressure.Threshold{Signal: pressure.MemoryAvailable, Below: pressure.Amount{Value: 100}}
	soft := hard
	soft.Grace = time.Minute
	for _, tc := range []struct {
		name string
		t    pressure.Threshold
		most time.Duration
		pod  *v1.Pod
		want *int64
	}{
		{"hard", hard, time.Minute, pod("a", own(600)), new(int64(1))},
		{"the limit", soft, time.Minute, pod("a", own(600)), new(int64(60))},
		{"the pod's own is shorter", soft, time.Minute, pod("a", own(6)), new(int64(6))},
		{"the pod has none", soft, time.Minute, pod("a"), new(int64(60))},
		{"the kubelet's default", soft, 0, pod("a", own(600)), new(int64(1))},
		{"118172: negative", soft, -time.Second, pod("a", own(600)), nil},
	} {
		e, found := pressure.Policy{MaxGrace: tc.most}.Victim(tc.t, pressure.Layout{}, []pressure.Usage{using(1, tc.pod)}, pressure.Reading{})
		require.True(t, found)
		assert.Equal(t, tc.want, e.Grace, tc.name)
	}
}

func TestOverLimit(t *testing.T) {
	const storage = v1.ResourceEphemeralStorage
	emptyDir := func(limit string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			q := resource.MustParse(limit)
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &q}}})
		}
	}
	sidecar := func(limit string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			c := v1.Container{Name: "s", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}
			c.Resources.Limits = v1.ResourceList{storage: resource.MustParse(limit)}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	initially := func(limit string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			sidecar(limit)(p)
			p.Spec.InitContainers[len(p.Spec.InitContainers)-1].RestartPolicy = nil
		}
	}
	for _, tc := range []struct {
		name  string
		usage pressure.Usage
		cause string
		text  string
	}{
		{"no limit", storing(900, 900, 900, pod("a")), "", ""},
		{"emptyDir", storing(0, 0, 11, pod("a", emptyDir("10Mi"), limits(storage, "1Mi"))), pressure.LimitEmptyDir, `Usage of EmptyDir volume "v" exceeds the limit "10Mi". `},
		{"emptyDir at its limit", storing(0, 0, 10, pod("a", emptyDir("10Mi"))), "", ""},
		{"emptyDir with limit 0", storing(0, 0, 10, pod("a", emptyDir("0"))), "", ""},
		{"emptyDir with a limit beyond 2^63", storing(0, 0, 10, pod("a", emptyDir("10E"))), "", ""},
		{"container with a limit beyond 2^63", storing(4, 3, 4, pod("a", limits(storage, "10E"))), "", ""},
		{"pod", storing(4, 3, 4, pod("a", limits(storage, "10Mi"))), pressure.LimitPod, "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. "},
		{"139339: the container, with images apart, too", storing(6, 5, 0, pod("a", limits(storage, "10Mi"), sidecar("5Mi"))), pressure.LimitContainer, `Container c exceeded its local ephemeral storage limit "10Mi". `},
		{"sidecars count", storing(4, 3, 4, pod("a", limits(storage, "10Mi"), sidecar("5Mi"))), "", ""},
		{"a large init container raises the limit of the pod", storing(4, 3, 14, pod("a", limits(storage, "10Mi"), sidecar("5Mi"), initially("20Mi"))), "", ""},
		{"critical", storing(4, 3, 4, pod("a", static, limits(storage, "10Mi"), emptyDir("1Mi"))), "", ""},
		{"not measured", pressure.Usage{Pod: pod("a", limits(storage, "10Mi"))}, "", ""},
	} {
		got := pressure.OverLimit([]pressure.Usage{tc.usage})
		if tc.cause == "" {
			assert.Empty(t, got, tc.name)
			continue
		}
		assert.Equal(t, []pressure.Eviction{{Pod: tc.usage.Pod, Grace: new(int64(1)), Cause: tc.cause, Message: tc.text}}, got, tc.name)
		assert.True(t, pressure.HasLimits(tc.usage.Pod), tc.name)
	}
	assert.False(t, pressure.HasLimits(pod("a")))
	assert.False(t, pressure.HasLimits(pod("a", static, limits(storage, "10Mi"))))
	assert.True(t, pressure.HasLimits(pod("a", emptyDir("1Mi"))))
	several := pressure.OverLimit([]pressure.Usage{storing(11, 0, 0, pod("a", limits(storage, "10Mi"))), storing(11, 0, 0, pod("b", limits(storage, "10Mi")))})
	assert.Len(t, several, 2)
}

func TestRefusal(t *testing.T) {
	burstable := pod("burstable", requests(v1.ResourceMemory, "1Mi"))
	tolerant := pod("tolerant", func(p *v1.Pod) {
		p.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}}
	})
	memory, disk, pid := v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure
	for _, tc := range []struct {
		conditions []v1.NodeConditionType
		refused    []string
	}{
		{nil, nil},
		{[]v1.NodeConditionType{memory}, []string{"effort"}},
		{[]v1.NodeConditionType{disk}, []string{"effort", "burstable", "tolerant"}},
		{[]v1.NodeConditionType{pid}, []string{"effort", "burstable", "tolerant"}},
		{[]v1.NodeConditionType{disk, memory}, []string{"effort", "burstable", "tolerant"}},
	} {
		var refused []string
		for _, p := range []*v1.Pod{pod("effort"), burstable, tolerant, pod("static", static), pod("system", priority(2_000_001_000))} {
			if pressure.Refusal(p, tc.conditions) != "" {
				refused = append(refused, p.Name)
			}
		}
		assert.Equal(t, tc.refused, refused, tc.conditions)
	}
	assert.Equal(t, "The node had condition: [DiskPressure MemoryPressure]. ", pressure.Refusal(burstable, []v1.NodeConditionType{disk, memory}))
}
