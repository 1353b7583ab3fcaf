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
		"proc/meminfo":                   "MemTotal:        2000 kB\nMemFree: 1 kB\nMemAvailable:    1000 kB\nHugePages_Total:       0\n",
		"proc/sys/kernel/pid_max":        "4194304\n",
		"proc/sys/kernel/threads-max":    "1000\n",
		"proc/loadavg":                   "0.10 0.20 0.30 2/345 6789\n",
	})
	require.Equal(t, v1.NodeSystemInfo{
		MachineID: "4c5d", SystemUUID: "ab-cd", BootID: "boot", KernelVersion: "6.18.0", OSImage: `Debian GNU/Linux 13 "trixie"`,
		ContainerRuntimeVersion: "containerd://2.1.0", KubeletVersion: host.Version(), OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
	}, m.System("containerd://2.1.0"))
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
	require.Equal(t, "Void", m.System("").OSImage)
}

func TestVersionIsSemantic(t *testing.T) {
	require.Regexp(t, `^v\d+\.\d+\.\d+\+keelson$`, host.Version())
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
