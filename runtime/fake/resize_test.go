// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func amounts(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

func TestUpdateResources(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		sb := n.sandbox("u", 0)
		c := v1.Container{Resources: v1.ResourceRequirements{Requests: amounts("100m", "1Gi"), Limits: amounts("5m", "2Gi")}}
		id, err := n.CreateContainer(t.Context(), sb, runtime.ContainerSpec{Name: "c", Container: &c})
		require.NoError(t, err)
		n.Script(fake.Target{Container: "c"}, fake.Script{Memory: 123})
		require.ErrorContains(t, n.UpdateResources(t.Context(), id, v1.ResourceRequirements{}), "created, not running")
		_, err = n.MemoryUsage(t.Context(), id)
		require.ErrorContains(t, err, "created, not running")
		require.NoError(t, n.StartContainer(t.Context(), id))

		reported := func() *v1.ResourceRequirements { return n.latest("u", "c").Resources }
		require.Equal(t, "100m", reported().Requests.Cpu().String(), "as it was made")
		require.Equal(t, "10m", reported().Limits.Cpu().String(), "the least quota")
		require.Equal(t, "2Gi", reported().Limits.Memory().String())
		require.NotContains(t, reported().Requests, v1.ResourceMemory, "kernels do not know it")

		want := v1.ResourceRequirements{Requests: amounts("2m", "1Gi"), Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("4Gi")}}
		require.NoError(t, n.UpdateResources(t.Context(), id, want))
		want.Limits[v1.ResourceMemory] = resource.MustParse("8Gi") // the record is its own
		require.Nil(t, reported().Requests, "two shares are as good as none")
		require.NotContains(t, reported().Limits, v1.ResourceCPU, "the limit was taken away")
		require.Equal(t, "4Gi", reported().Limits.Memory().String())
		reported().Limits[v1.ResourceMemory] = resource.MustParse("8Gi")
		require.Equal(t, "4Gi", reported().Limits.Memory().String())
		require.Contains(t, n.Journal().String(), "UpdateResources default/pod-u/c container-00000003 cpu 2m/0 memory 1Gi/4Gi: ok")

		used, err := n.MemoryUsage(t.Context(), id)
		require.NoError(t, err)
		require.EqualValues(t, 123, used)
		require.NoError(t, n.StopContainer(t.Context(), id, time.Second))
		require.ErrorContains(t, n.UpdateResources(t.Context(), id, want), "exited, not running")
	})
}

func TestUpdateResourcesOfNothing(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		none := runtime.ContainerID{Runtime: "fake", ID: "none"}
		require.ErrorIs(t, n.UpdateResources(t.Context(), none, v1.ResourceRequirements{}), runtime.ErrNotFound)
		_, err := n.MemoryUsage(t.Context(), none)
		require.ErrorIs(t, err, runtime.ErrNotFound)
		id := n.run(n.sandbox("v", 0), "c", 0)
		require.Nil(t, n.latest("v", "c").Resources, "none given, none reported")
		require.NoError(t, n.UpdateResources(t.Context(), id, v1.ResourceRequirements{}))
		require.Nil(t, n.latest("v", "c").Resources)
	})
}
