// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
)

func machine(t *testing.T, files map[string]string) host.Machine {
	m := host.Machine{Root: t.TempDir()}
	for path, text := range files {
		path = filepath.Join(m.Root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return m
}

func TestSystem(t *testing.T) {
	m := machine(t, map[string]string{
		"etc/machine-id":                 "4c5d\n",
		"sys/class/dmi/id/product_uuid":  "AB-CD\n",
		"proc/sys/kernel/random/boot_id": "boot\n",
		"proc/sys/kernel/osrelease":      "6.18.0\n",
		"etc/os-release":                 "NAME=Debian\nPRETTY_NAME=\"Debian GNU/Linux 13 \\\"trixie\\\"\"\n",
		"proc/meminfo":                   "MemTotal:        2000 kB\nMemFree: 1 kB\nMemAvailable:    1000 kB\nHugePages_Total:       0\nSwapTotal:       3072 kB\n",
		"proc/sys/kernel/pid_max":        "4194304\n",
		"proc/sys/kernel/threads-max":    "1000\n",
		"proc/loadavg":                   "0.10 0.20 0.30 2/345 6789\n",
	})
	require.Equal(t, v1.NodeSystemInfo{
		MachineID: "4c5d", SystemUUID: "ab-cd", BootID: "boot", KernelVersion: "6.18.0", OSImage: `Debian GNU/Linux 13 "trixie"`,
		OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, Swap: &v1.NodeSwapStatus{Capacity: new(int64(3 << 20))},
	}, m.System())
	all, available := m.Memory()
	assert.EqualValues(t, 2000<<10, all)
	assert.EqualValues(t, 1000<<10, available)
	most, used := m.ProcessIDs()
	assert.EqualValues(t, 1000, most)
	assert.EqualValues(t, 345, used)
}

func TestAMachineThatTellsNothing(t *testing.T) {
	m := machine(t, map[string]string{"proc/loadavg": "what", "proc/meminfo": "MemTotal: many kB\n", "etc/os-release": "PRETTY_NAME='Void'\n"})
	all, available := m.Memory()
	assert.Zero(t, all+available)
	most, used := m.ProcessIDs()
	assert.Zero(t, most+used)
	require.Equal(t, v1.NodeSystemInfo{OSImage: "Void", OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH}, m.System())
	m = machine(t, map[string]string{"etc/machine-id": "4c5d\n"})
	require.Equal(t, "4c5d", m.System().SystemUUID, "the firmware has none")
	m = machine(t, map[string]string{"etc/machine-id": "4c5d\n", "proc/device-tree/vm,uuid": "EF\x00"})
	require.Equal(t, "ef", m.System().SystemUUID)
}

func TestVersion(t *testing.T) {
	for text, want := range map[string]string{"": host.Behaviour + "+keelson", "v1.35.0": "v1.35.0+keelson", "v1.9.12": "v1.9.12+keelson"} {
		got, err := host.Version(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, text := range []string{"1.35.0", "v1.35", "v1.35.0+x", "v1.35.0 ", "v2.0.0", "v1.-1.0", "v1.035.0", "v1.99999.0", "latest"} {
		_, err := host.Version(text)
		assert.ErrorContains(t, err, text)
	}
}

func TestHugePages(t *testing.T) {
	const folder = "sys/kernel/mm/hugepages/hugepages-"
	m := machine(t, map[string]string{
		folder + "2048kB/nr_hugepages":                "16\n",
		folder + "1048576kB/nr_hugepages":             "0\n",
		folder + "64kB/nr_hugepages":                  "many\n",
		folder + "xkB/nr_hugepages":                   "1\n",
		"sys/kernel/mm/hugepages/other/nr_hugepages":  "1\n",
		folder + "32768kB/other":                      "1\n",
		folder + "4096kB/nr_hugepages":                "9223372036854775807\n",
		folder + "9223372036854775807kB/nr_hugepages": "1\n",
	})
	want := v1.ResourceList{"hugepages-2Mi": resource.MustParse("32Mi"), "hugepages-1Gi": resource.MustParse("0")}
	got := m.HugePages()
	require.Len(t, got, len(want))
	for name, amount := range want {
		assert.True(t, amount.Equal(got[name]), "%s: %v", name, got[name])
	}
	require.Empty(t, machine(t, nil).HugePages())
}

func TestDisk(t *testing.T) {
	bytes, available, inodes, free := host.Disk(filepath.Join(t.TempDir(), "missing"))
	assert.Zero(t, bytes+available+inodes+free)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	bytes, available, inodes, free = host.Disk(t.TempDir())
	assert.Positive(t, bytes)
	assert.LessOrEqual(t, available, bytes)
	assert.LessOrEqual(t, free, inodes)
}
