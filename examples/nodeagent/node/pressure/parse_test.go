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

type texts = map[string]string

func TestParse(t *testing.T) {
	const pods, memory, nodefs, inodes, pid = pressure.AllocatableMemoryAvailable, pressure.MemoryAvailable, pressure.NodeFSAvailable, pressure.NodeFSInodesFree, pressure.PIDAvailable
	bytes := func(n int64) pressure.Amount { return pressure.Amount{Value: n} }
	share := func(f float32) pressure.Amount { return pressure.Amount{Share: f} }
	for _, tc := range []struct {
		name string
		in   pressure.Settings
		want []pressure.Threshold
	}{
		{"nothing", pressure.Settings{}, nil},
		{"a quantity", pressure.Settings{Hard: texts{"memory.available": "150Mi"}}, []pressure.Threshold{{Signal: memory, Below: bytes(150 << 20)}}},
		{"a percentage", pressure.Settings{Hard: texts{"nodefs.available": "12.5%"}}, []pressure.Threshold{{Signal: nodefs, Below: share(0.125)}}},
		{"no threshold", pressure.Settings{Hard: texts{"nodefs.available": "0%", "imagefs.available": "100%"}}, nil},
		{"sorted, hard before soft, with the reclaim of the signal", pressure.Settings{
			Hard: texts{"pid.available": "1000", "memory.available": "100Mi"}, Soft: texts{"memory.available": "30%"}, SoftGrace: texts{"memory.available": "90s"},
			Reclaim: texts{"memory.available": "10%", "pid.available": "0"},
		}, []pressure.Threshold{
			{Signal: memory, Below: bytes(100 << 20), Reclaim: share(0.1)},
			{Signal: memory, Below: share(0.3), Reclaim: share(0.1), Grace: 90 * time.Second},
			{Signal: pid, Below: bytes(1000)},
		}},
		{"defaults fill in", pressure.Settings{MergeDefaults: true, Hard: texts{"memory.available": "1Gi", "imagefs.available": "0%", "imagefs.inodesFree": "0%"}}, []pressure.Threshold{
			{Signal: memory, Below: bytes(1 << 30)}, {Signal: nodefs, Below: share(0.1)}, {Signal: inodes, Below: share(0.05)},
		}},
		{"the memory of all pods", pressure.Settings{LimitsPods: true, Hard: texts{"memory.available": "1Gi", "nodefs.available": "10%"}, Soft: texts{"memory.available": "2Gi"}, SoftGrace: texts{"memory.available": "1m"}, Reclaim: texts{"memory.available": "5"}}, []pressure.Threshold{
			{Signal: pods, Below: bytes(1 << 30), Reclaim: bytes(5)}, {Signal: memory, Below: bytes(1 << 30), Reclaim: bytes(5)},
			{Signal: memory, Below: bytes(2 << 30), Reclaim: bytes(5), Grace: time.Minute}, {Signal: nodefs, Below: share(0.1)},
		}},
		{"a threshold of its own", pressure.Settings{LimitsPods: true, Hard: texts{"memory.available": "1Gi", "allocatableMemory.available": "2Gi"}}, []pressure.Threshold{
			{Signal: pods, Below: bytes(2 << 30)}, {Signal: memory, Below: bytes(1 << 30)},
		}},
		{"pods that are not limited", pressure.Settings{LimitsPods: true, Hard: texts{"nodefs.available": "10%"}}, []pressure.Threshold{{Signal: nodefs, Below: share(0.1)}}},
	} {
		got, err := pressure.Parse(tc.in)
		require.NoError(t, err, tc.name)
		assert.Equal(t, tc.want, got, tc.name)
	}
	all, err := pressure.Parse(pressure.Settings{Hard: pressure.DefaultHard()})
	require.NoError(t, err)
	require.Len(t, all, 5)
}

func TestParseErrors(t *testing.T) {
	hard := func(value string) pressure.Settings { return pressure.Settings{Hard: texts{"memory.available": value}} }
	reclaim := func(value string) pressure.Settings {
		return pressure.Settings{Reclaim: texts{"memory.available": value}}
	}
	grace := func(value string) pressure.Settings {
		return pressure.Settings{Soft: texts{"memory.available": "1Gi"}, SoftGrace: texts{"memory.available": value}}
	}
	for _, tc := range []struct {
		in   pressure.Settings
		want string
	}{
		{pressure.Settings{Hard: texts{"memory.free": "1Gi"}}, "evictionHard: unsupported eviction signal memory.free"},
		{hard("-5%"), "evictionHard: eviction percentage threshold memory.available must be >= 0%: -5%"},
		{hard("101%"), "evictionHard: eviction percentage threshold memory.available must be <= 100%: 101%"},
		{hard("NaN%"), "is no percentage"},
		{hard("much%"), "is no percentage"},
		{hard("0"), "evictionHard: eviction threshold memory.available must be positive: 0"},
		{hard("-1Gi"), "must be positive: -1Gi"},
		{hard("10000000000000000000"), "evictionHard: eviction threshold memory.available is too large: 10000000000000000000"},
		{hard("10E"), "is too large: 10E"},
		{reclaim("10E"), "evictionMinimumReclaim: eviction minimum reclaim memory.available is too large: 10E"},
		{hard("lots"), `evictionHard: eviction threshold memory.available: "lots" is neither a quantity nor a percentage`},
		{reclaim("0%"), "evictionMinimumReclaim: eviction percentage minimum reclaim memory.available must be positive and at most 100%: 0%"},
		{reclaim("200%"), "must be positive and at most 100%: 200%"},
		{reclaim("x%"), "is no percentage"},
		{reclaim("-1"), "evictionMinimumReclaim: negative eviction minimum reclaim specified for memory.available: -1"},
		{reclaim("x"), "neither a quantity nor a percentage"},
		{grace("0s"), "evictionSoftGracePeriod: invalid eviction grace period of memory.available specified: 0s, must be a positive value"},
		{grace("soon"), "specified: soon, must be a positive value"},
		{pressure.Settings{Soft: texts{"memory.available": "1Gi"}}, "evictionSoft: grace period must be specified for the soft eviction threshold memory.available"},
	} {
		_, err := pressure.Parse(tc.in)
		assert.ErrorContains(t, err, tc.want)
	}
	_, err := pressure.Parse(pressure.Settings{Hard: texts{"a": "1", "b": "2"}})
	require.ErrorContains(t, err, "signal a\nevictionHard: unsupported eviction signal b")
}

// A text that Parse accepts gives a threshold between nothing and everything.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"10%", "100Mi", "0%", "-1%", "1e3", "1.5%", "Inf%", "1E", "10E"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := pressure.Parse(pressure.Settings{Hard: texts{"memory.available": text}})
		if err != nil {
			return
		}
		for _, threshold := range all {
			if limit := threshold.Below.Of(1 << 40); limit <= 0 && threshold.Below.Share == 0 || threshold.Below.Share < 0 || threshold.Below.Share > 1 {
				t.Errorf("%q: %d of 1Ti", text, limit)
			}
		}
	})
}

func TestWithheld(t *testing.T) {
	all, err := pressure.Parse(pressure.Settings{
		Hard: pressure.DefaultHard(), Soft: texts{"memory.available": "50%"}, SoftGrace: texts{"memory.available": "1m"},
		Reclaim: texts{"memory.available": "1Gi"},
	})
	require.NoError(t, err)
	capacity := v1.ResourceList{v1.ResourceMemory: resource.MustParse("2Gi"), v1.ResourceEphemeralStorage: resource.MustParse("100Gi"), v1.ResourceCPU: resource.MustParse("2")}
	got := pressure.Withheld(capacity, all)
	require.Len(t, got, 2)
	require.EqualValues(t, 100<<20, got.Memory().Value())
	require.InDelta(t, 10<<30, got.StorageEphemeral().Value(), 1<<10)
	require.Empty(t, pressure.Withheld(v1.ResourceList{}, all))
	// A node of Amazon EKS with this disk and a reservation of 1Gi reports 76224326324 as allocatable.
	disk := v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("83873772Ki")}
	withheld := pressure.Withheld(disk, all)
	require.EqualValues(t, 76224326324, disk.StorageEphemeral().Value()-1<<30-withheld.StorageEphemeral().Value())
}

func TestThresholdsAsText(t *testing.T) {
	all, err := pressure.Parse(pressure.Settings{Hard: texts{"memory.available": "100Mi"}, Soft: texts{"nodefs.available": "15%"}, SoftGrace: texts{"nodefs.available": "2m"}})
	require.NoError(t, err)
	require.Equal(t, "memory.available<100Mi", all[0].String())
	require.Equal(t, "nodefs.available<15% for 2m0s", all[1].String())
}
