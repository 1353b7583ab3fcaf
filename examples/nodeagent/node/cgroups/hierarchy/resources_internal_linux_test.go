// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"os"
	"path/filepath"
	"testing"

	oci "github.com/opencontainers/cgroups"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
)

func TestResources(t *testing.T) {
	pids, all := int64(5), int64(-1)
	v := cgroups.Values{CPUShares: 1024, CPUQuota: 50000, Memory: 1 << 20, PIDs: pids, HugePages: map[string]int64{"2MB": 0, "1GB": 7}}
	pages := []*oci.HugepageLimit{{Pagesize: "1GB", Limit: 7}, {Pagesize: "2MB"}}
	want := oci.Resources{SkipDevices: true, SkipFreezeOnSet: true, CpuQuota: 50000, CpuPeriod: 100000, Memory: 1 << 20, PidsLimit: &pids, HugetlbLimit: pages}
	legacy, unified := want, want
	legacy.CpuShares, unified.CpuWeight = 1024, 39
	assert.Equal(t, &legacy, resources(v, false))
	assert.Equal(t, &unified, resources(v, true))
	assert.Equal(t, &oci.Resources{SkipDevices: true, SkipFreezeOnSet: true}, resources(cgroups.Values{}, true))
	protected := cgroups.Values{MemoryMin: 1 << 20, MemoryLow: cgroups.Unlimited}
	assert.Equal(t, map[string]string{"memory.min": "1048576", "memory.low": "0"}, resources(protected, true).Unified)
	assert.Nil(t, resources(protected, false).Unified, "cgroup version 1 has no such files")
	assert.Equal(t, &oci.Resources{SkipDevices: true, SkipFreezeOnSet: true, CpuQuota: -1, CpuPeriod: 100000, Memory: -1, PidsLimit: &all},
		resources(cgroups.Values{CPUQuota: -1, Memory: -1, PIDs: -1}, false))
}

// Weights of cgroup version 2 as the kubelet computes them.
func TestWeight(t *testing.T) {
	for shares, want := range map[int64]uint64{2: 1, 1024: 39, 2048: 79, 262144: 10000} {
		assert.Equal(t, want, weight(shares), shares)
	}
}

func TestSlice(t *testing.T) {
	for path, want := range map[string][2]string{
		"/kubepods.slice": {"-.slice", "kubepods.slice"},
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu.slice": {"kubepods-burstable.slice", "kubepods-burstable-podu.slice"},
	} {
		c := slice(path, nil)
		assert.Equal(t, want, [2]string{c.Parent, c.Name})
		assert.True(t, c.Systemd)
	}
}

// The files of cgroup version 2, which this test makes up.
func TestUnifiedLimits(t *testing.T) {
	for _, tt := range []struct {
		files map[string]string
		want  cgroups.Values
	}{
		{nil, cgroups.Values{CPUQuota: -1, Memory: -1, PIDs: -1}}, // a root cgroup
		{map[string]string{"cpu.max": "max 100000\n", "memory.max": "max\n", "pids.max": "max\n"}, cgroups.Values{CPUQuota: -1, Memory: -1, PIDs: -1}},
		{map[string]string{"cpu.max": "25000 50000\n", "memory.max": "4096\n", "pids.max": "9\n"}, cgroups.Values{CPUQuota: 50000, Memory: 4096, PIDs: 9}},
	} {
		dir := t.TempDir()
		for name, text := range tt.files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		got, err := unifiedLimits(dir)
		require.NoError(t, err)
		assert.Equal(t, tt.want, got)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "memory.max"), []byte("much"), 0o600))
	_, err := unifiedLimits(dir)
	require.Error(t, err)
}
