// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// exampleSnapshot is a snapshot of the pod web, of which one container has a cgroup.
func exampleSnapshot() *Snapshot {
	m := example(epoch)
	web := m.pods[0].DeepCopy()
	web.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse("500m")
	web.Spec.Containers[0].Resources.Limits[v1.ResourceMemory] = resource.MustParse("1000000") // not whole pages
	web.Status.ContainerStatuses[0].Image = "registry.example/web:1"
	return &Snapshot{
		At: epoch, Machine: m.machine, MemoryCapacity: 8000, Pods: map[types.UID]*v1.Pod{"1": web}, Containers: []stats.Pod{*m.usage["1"], *m.usage["3"]},
		Cgroups: map[string]*Cgroup{"m": {Path: "/kubepods/pod1/m", At: epoch, Usage: cgroup.Usage{
			User: time.Second, System: 2 * time.Second, Periods: 10, ThrottledPeriods: 3, ThrottledTime: 4 * time.Second, Cache: 11, MaxMemory: 900, MemoryFailures: 5, OOMKills: 1, Tasks: 6,
			IO:       []cgroup.IO{{Device: "8:0", ReadBytes: 1, WriteBytes: 2, Reads: 3, Writes: 4}, {Device: "8:1"}},
			CPUStall: cgroup.Stall{Known: true, Some: 5 * time.Second, All: time.Second},
		}}},
		Networks:   map[types.UID]Network{"1": {Cgroup: "/kubepods/pod1", At: epoch, Interfaces: []host.Interface{{Name: "eth0", ReceivedBytes: 7, SendDropped: 8}}}},
		capacities: map[string]uint64{"/layers": 2000}, devices: map[string]string{"8:0": "/dev/sda", "8:1": "8:1"},
	}
}

func TestContainerMetrics(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, WriteContainerMetrics(&out, exampleSnapshot()))
	text := out.String()
	const (
		main   = `container="main",id="/kubepods/pod1/m",image="registry.example/web:1",name="m",namespace="default",pod="web"`
		pod    = `container="",id="/kubepods/pod1",image="",name="",namespace="default",pod="web"`
		node   = `container="",id="/",image="",name="",namespace="",pod=""`
		millis = " 1700000000000\n"
	)
	for _, want := range []string{
		"machine_memory_bytes 8000\n", "# TYPE container_cpu_usage_seconds_total counter\n",
		`container_cpu_usage_seconds_total{` + main + `,cpu="total"} 3` + millis, `container_cpu_usage_seconds_total{` + node + `,cpu="total"} 100` + millis,
		"container_cpu_user_seconds_total{" + main + "} 1" + millis, "container_cpu_system_seconds_total{" + main + "} 2" + millis,
		"container_cpu_cfs_periods_total{" + main + "} 10" + millis, "container_cpu_cfs_throttled_periods_total{" + main + "} 3" + millis,
		"container_cpu_cfs_throttled_seconds_total{" + main + "} 4" + millis,
		"container_memory_working_set_bytes{" + main + "} 600" + millis, "container_memory_usage_bytes{" + main + "} 700" + millis, "container_memory_rss{" + main + "} 500" + millis,
		"container_memory_cache{" + main + "} 11" + millis, "container_memory_max_usage_bytes{" + main + "} 900" + millis, "container_memory_failcnt{" + main + "} 5" + millis,
		"container_memory_swap{" + main + "} 5" + millis, "container_oom_events_total{" + main + "} 1" + millis,
		`container_fs_usage_bytes{` + main + `,device="/layers"} 40` + millis, `container_fs_limit_bytes{` + main + `,device="/layers"} 2000` + millis,
		`container_fs_reads_bytes_total{` + main + `,device="/dev/sda"} 1` + millis, `container_fs_writes_total{` + main + `,device="/dev/sda"} 4` + millis,
		`container_network_receive_bytes_total{` + pod + `,interface="eth0"} 7` + millis, `container_network_transmit_packets_dropped_total{` + pod + `,interface="eth0"} 8` + millis,
		`container_network_transmit_bytes_total{` + node + `,interface="eth0"} 3` + millis,
		"container_start_time_seconds{" + main + "} 1.69999997e+09" + millis, "container_last_seen{" + main + "} 1.7e+09" + millis, "container_threads{" + main + "} 6" + millis,
		"container_spec_cpu_quota{" + main + "} 50000\n", "container_spec_cpu_period{" + main + "} 100000\n", "container_spec_cpu_shares{" + main + "} 512\n",
		"container_spec_memory_limit_bytes{" + main + "} 999424\n",
		"container_pressure_cpu_waiting_seconds_total{" + main + "} 5" + millis, "container_pressure_cpu_stalled_seconds_total{" + main + "} 1" + millis,
	} {
		assert.Contains(t, text, want)
	}
	for _, absent := range []string{
		"container_pressure_memory", // the kernel does not tell
		`container_cpu_cfs_periods_total{container="side"`, `container_spec_cpu_quota{container="side"`, `container_fs_usage_bytes{container="side"`,
	} {
		assert.NotContains(t, text, absent)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	for name, family := range families { // Prometheus refuses a series that is there twice
		seen := map[string]bool{}
		for _, m := range family.GetMetric() {
			key := m.String()[:strings.LastIndex(m.String(), "}")]
			require.False(t, seen[key], "%s: %s", name, key)
			seen[key] = true
		}
	}
}

// The network of a pod is read by way of a process in its cgroup, but not on the node's network.
func TestNetworksOfPods(t *testing.T) {
	id := strings.Repeat("0a", 32)
	root := t.TempDir()
	dir := filepath.Join(root, "cgroup", "pod1", id)
	for path, text := range map[string]string{
		filepath.Join(root, "cgroup", "cgroup.controllers"): "",
		filepath.Join(dir, "cgroup.procs"):                  "77\n",
		filepath.Join(dir, "pids.current"):                  "2\n",
		filepath.Join(dir, "io.stat"):                       "8:0 rbytes=5\n",
		filepath.Join(root, "proc/77/net/dev"):              "eth0: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(root, "sys/dev/block"), 0o755))
	require.NoError(t, os.Symlink("../../devices/sda", filepath.Join(root, "sys/dev/block/8:0")))
	pod := &v1.Pod{}
	pod.UID = "1"
	c := &Collector{Options: Options{Cgroups: cgroup.New(filepath.Join(root, "cgroup")), Machine: host.Machine{Root: root}}, processes: map[string]int{}}
	read := func() *Snapshot {
		container := stats.Container{ID: runtime.ContainerID{Runtime: "test", ID: id}, WritableLayer: stats.FileSystem{Mountpoint: root}}
		m := &measurement{byUID: map[types.UID]*v1.Pod{"1": pod}, listed: []stats.Pod{{UID: "1", Containers: []stats.Container{container}}}}
		c.readNetworks(m)
		m.groups = c.readGroups(m)
		return m.snapshot()
	}
	s := read()
	require.Equal(t, "/pod1", s.Networks["1"].Cgroup)
	require.Equal(t, []host.Interface{{Name: "eth0", ReceivedBytes: 10, ReceivedPackets: 1, SentBytes: 20, SentPackets: 2, IsDefault: true}}, s.Networks["1"].Interfaces)
	assert.EqualValues(t, 2, s.Cgroups[id].Usage.Tasks)
	assert.Equal(t, "/dev/sda", s.devices["8:0"])
	assert.Positive(t, s.capacities[root])

	// The first process has ended, and another program has its number.
	for path, text := range map[string]string{filepath.Join(dir, "cgroup.procs"): "78\n", filepath.Join(root, "proc/78/net/dev"): "eth0: 11 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	require.EqualValues(t, 11, read().Networks["1"].Interfaces[0].ReceivedBytes)
	pod.Spec.HostNetwork = true
	require.Empty(t, read().Networks)
}
