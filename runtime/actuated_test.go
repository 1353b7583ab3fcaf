// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const mebi = 1 << 20

func podWanting(d demand, restart ...v1.ResourceName) (*v1.Pod, *v1.Container) {
	pod := &v1.Pod{}
	pod.Spec.Containers = []v1.Container{{Name: "c", Resources: d.requirements()}}
	c := &pod.Spec.Containers[0]
	for _, name := range restart {
		c.ResizePolicy = append(c.ResizePolicy, v1.ContainerResizePolicy{ResourceName: name, RestartPolicy: v1.RestartContainer})
	}
	return pod, c
}

func TestAtFirstSight(t *testing.T) {
	wanted := demand{200, 400, 2 * mebi, 4 * mebi}
	made := demand{100, 200, mebi, 2 * mebi}
	for _, c := range []struct {
		name     string
		recorded *demand
		reported *demand
		restart  []v1.ResourceName
		want     demand
	}{
		{"as it was made", &made, nil, nil, made},
		{"resized since", &made, &demand{200, 400, 0, 4 * mebi}, nil, demand{200, 400, mebi, 4 * mebi}},
		{"one number resized since", &made, &demand{100, 400, 0, 2 * mebi}, nil, demand{100, 400, mebi, 2 * mebi}},
		{"rounded", &made, &demand{101, 199, 0, 2*mebi - 4096}, nil, made},
		{"not rounded", &made, &demand{102, 198, 0, 2*mebi - memorySlack - 1}, nil, demand{102, 198, mebi, 2*mebi - memorySlack - 1}},
		{"nothing is told", &made, &demand{}, nil, made},
		{"the least", &demand{1, 5, 0, 0}, &demand{2, 10, 0, 0}, nil, demand{1, 5, 0, 0}},
		{"more than the least", &demand{1, 5, 0, 0}, &demand{5, 11, 0, 0}, nil, demand{5, 11, 0, 0}},
		{"restarts are believed to the record only", &made, &demand{200, 400, 0, 4 * mebi}, []v1.ResourceName{v1.ResourceCPU},
			demand{100, 200, mebi, 4 * mebi}},
		{"made by another agent", nil, nil, nil, demand{}},
		{"made by another agent, reported", nil, &demand{200, 300, 0, 4 * mebi}, nil, demand{200, 300, 2 * mebi, 4 * mebi}},
		{"made by another agent, would restart", nil, nil, []v1.ResourceName{v1.ResourceMemory}, demand{0, 0, 2 * mebi, 4 * mebi}},
		{"made by another agent, reported, would restart", nil, &demand{100, 100, 0, mebi}, []v1.ResourceName{v1.ResourceMemory},
			demand{100, 100, 2 * mebi, 4 * mebi}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod, container := podWanting(wanted, c.restart...)
			st := &ContainerStatus{Name: "c", State: StateRunning}
			if c.recorded != nil {
				st.Annotations = map[string]string{annotationResources: c.recorded.record()}
			}
			if c.reported != nil {
				st.Resources = new(c.reported.requirements())
			}
			assert.Equal(t, c.want, atFirstSight(pod, container, st))
		})
	}
}

func TestResourcesOnRecord(t *testing.T) {
	for _, d := range []demand{{}, {1, 2, 3, 4}, {100, 0, mebi, 0}, {0, 1500, 0, 3 * mebi}} {
		got, ok := givenTo(&ContainerStatus{Annotations: map[string]string{annotationResources: d.record()}}, demand{})
		require.True(t, ok)
		require.Equal(t, d, got)
		text, err := json.Marshal(d.requirements())
		require.NoError(t, err)
		require.Equal(t, string(text), d.record())
	}
	assert.Equal(t, `{"limits":{"cpu":"200m","memory":"2Mi"},"requests":{"cpu":"100m","memory":"1Mi"}}`,
		demand{100, 200, mebi, 2 * mebi}.record())
	for _, damaged := range []string{"", "{", `"x"`, `{"limits":{"cpu":"x"}}`, `[]`} {
		_, ok := givenTo(&ContainerStatus{Annotations: map[string]string{annotationResources: damaged}}, demand{})
		assert.False(t, ok, damaged)
	}
	_, ok := givenTo(&ContainerStatus{}, demand{})
	assert.False(t, ok)
}

// FuzzResourcesOnRecord reads any text, and writes the result in the same form.
func FuzzResourcesOnRecord(f *testing.F) {
	f.Add(`{"limits":{"cpu":"200m","memory":"2Mi"},"requests":{"cpu":"-1","memory":"1e30"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, ok := givenTo(&ContainerStatus{Annotations: map[string]string{annotationResources: text}}, demand{})
		if !ok {
			return
		}
		require.GreaterOrEqual(t, min(d.CPULimit, d.CPURequest, d.MemoryLimit, d.MemoryRequest), int64(0))
		again, ok := givenTo(&ContainerStatus{Annotations: map[string]string{annotationResources: d.record()}}, demand{})
		require.True(t, ok)
		require.Equal(t, d, again)
	})
}

// Amounts are shown as the API shows them.
func TestChangesAreInQuantities(t *testing.T) {
	for _, n := range []int64{1, 999, 1000, 1024, 1500, 2000, 1 << 20, 3 << 29, 5 << 40, 1 << 62, 1<<62 + 1} {
		memory := resource.MustParse(string(appendMemory(nil, n)))
		assert.Equal(t, n, memory.Value())
		cpu := resource.MustParse(string(appendCPU(nil, min(n, 1<<50))))
		assert.Equal(t, min(n, 1<<50), cpu.MilliValue())
	}
	assert.Equal(t, "1536Mi", string(appendMemory(nil, 3<<29)))
	assert.Equal(t, "1000", string(appendMemory(nil, 1000)))
	assert.Equal(t, "none", string(appendMemory(nil, 0)))
	assert.Equal(t, "none", string(appendCPU(nil, 0)))
	assert.Equal(t, "1500m", string(appendCPU(nil, 1500)))
	assert.Equal(t, "2", string(appendCPU(nil, 2000)))
}

// The annotation is added to a copy. The generator's annotations stay unchanged.
func TestWithResourcesLeavesItsInputAlone(t *testing.T) {
	pod, c := podWanting(demand{CPULimit: 100})
	before := map[string]string{"a": "b"}
	after := withResources(before, pod, c)
	assert.Equal(t, map[string]string{"a": "b"}, before)
	assert.Equal(t, "b", after["a"])
	var r v1.ResourceRequirements
	require.NoError(t, json.Unmarshal([]byte(after[annotationResources]), &r))
	assert.Equal(t, "100m", r.Requests.Cpu().String())
	assert.Len(t, withResources(nil, pod, c), 1)
}
