// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/internal/diskuse"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

var epoch = time.Unix(1700000000, 0).UTC()

// example is a measurement of a node with three pods: web runs, waiting has no running container,
// and the node does not know gone any more.
func example(at time.Time) *measurement {
	cpu := func(ns uint64) stats.CPU { return stats.CPU{At: at, UsageNanoseconds: ns + uint64(at.Sub(epoch))} }
	used := func(bytes, inodes uint64) diskuse.Usage {
		return diskuse.Usage{At: epoch, Bytes: bytes, Inodes: inodes}
	}
	limit := v1.ResourceList{v1.ResourceMemory: resource.MustParse("1000")}
	id := func(name string) runtime.ContainerID { return runtime.ContainerID{Runtime: "test", ID: name} }
	web := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: limit}}, {Name: "side"}},
			Volumes: []v1.Volume{
				{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
				{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
				{Name: "own", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}},
				{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/etc"}}},
			},
		},
		Status: v1.PodStatus{
			StartTime: &metav1.Time{Time: epoch.Add(-time.Minute)},
			ContainerStatuses: []v1.ContainerStatus{{
				Name: "main", ContainerID: "test://m", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(epoch.Add(-30 * time.Second))}},
			}},
		},
	}
	waiting := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "waiting", UID: "2"}}
	return &measurement{
		at: at, node: "n", memory: 8000, pods: []*v1.Pod{web, waiting}, byUID: map[types.UID]*v1.Pod{"1": web, "2": waiting},
		machine: host.Usage{
			Boot: epoch.Add(-time.Hour), CPU: 100*time.Second + 2*at.Sub(epoch), SwapUsed: 7, SwapFree: 9,
			Memory:     host.MemoryUsage{Used: 6000, WorkingSet: 5000, Available: 3000, Anonymous: 4000, PageFaults: 11, MajorPageFaults: 12},
			Interfaces: []host.Interface{{Name: "br0", ReceivedBytes: 1}, {Name: "eth0", ReceivedBytes: 2, SentBytes: 3, IsDefault: true}},
		},
		self: stats.Container{Name: "kubelet", CPU: cpu(1e9), Memory: stats.Memory{At: at, Usage: 50, WorkingSet: 50, RSS: 50}},
		usage: map[types.UID]*stats.Pod{
			"1": {
				UID: "1", Namespace: "default", Name: "web", Processes: 4, Network: stats.Network{At: at, Interface: "eth0", Received: 10, Sent: 20},
				Containers: []stats.Container{
					{ID: id("m"), Name: "main", CPU: cpu(3e9), Memory: stats.Memory{At: at, Usage: 700, WorkingSet: 600, RSS: 500}, Swap: stats.Swap{At: at, Used: 5, Available: 6},
						WritableLayer: stats.FileSystem{At: epoch, Mountpoint: "/layers", UsedBytes: 40, InodesUsed: 4}},
					{ID: id("s"), Name: "side", CPU: cpu(2e9), Memory: stats.Memory{At: at, Usage: 70, WorkingSet: 60}},
				},
			},
			"3": {UID: "3", Namespace: "other", Name: "gone", CPU: cpu(9e9), Memory: stats.Memory{At: at, WorkingSet: 90}},
		},
		pressure: pressures{
			machine:    cgroup.Pressure{CPU: cgroup.Stall{Known: true, Some: 5, SomeShare: cgroup.Averages{1, 2, 3}}, IO: cgroup.Stall{Known: true, All: 7}},
			pods:       map[types.UID]cgroup.Pressure{"1": {Memory: cgroup.Stall{Known: true, Some: 8}}},
			containers: map[string]cgroup.Pressure{"m": {CPU: cgroup.Stall{Known: true, All: 9, AllShare: cgroup.Averages{0, 0.5, 0}}}},
		},
		disks: &disks{
			node: fileSystem{epoch, 1000, 300, 100, 40}, logs: fileSystem{epoch, 1000, 300, 100, 40},
			images:  &stats.FileSystem{At: epoch, Mountpoint: "/layers", UsedBytes: 123, InodesUsed: 12},
			systems: map[string]fileSystem{"/layers": {epoch, 2000, 500, 0, 0}},
			folders: map[types.UID]podFolders{
				"1": {
					logs: []logFolder{{"main", used(8, 2)}, {"ended", used(16, 1)}},
					volumes: []volume{
						{name: "scratch", used: used(100, 10), system: fileSystem{epoch, 1000, 300, 100, 40}},
						{name: "memory", whole: true, system: fileSystem{epoch, 50, 20, 10, 7}},
						// PersistentVolumes with the names of other volumes of the pod.
						{name: "scratch", isPersistent: true, whole: true, system: fileSystem{epoch, 90, 30, 0, 0}},
						{name: "data", isPersistent: true, whole: true, system: fileSystem{epoch, 80, 20, 0, 0}},
					},
					names: map[string]string{"scratch": "scratch", "memory": "memory", "data": "scratch", "own": "data"},
				},
				"2": {logs: []logFolder{{"main", used(32, 1)}}},
			},
		},
	}
}

func TestSummary(t *testing.T) {
	var r rates
	summarize(example(epoch), &r)
	s := summarize(example(epoch.Add(10*time.Second)), &r)

	node := s.Node
	assert.Equal(t, "n", node.NodeName)
	assert.Equal(t, epoch.Add(-time.Hour), node.StartTime.Time)
	assert.EqualValues(t, 120e9, *node.CPU.UsageCoreNanoSeconds)
	assert.EqualValues(t, 2e9, *node.CPU.UsageNanoCores)
	assert.EqualValues(t, 5000, *node.Memory.WorkingSetBytes)
	assert.EqualValues(t, 7, *node.Swap.SwapUsageBytes)
	assert.Equal(t, "eth0", node.Network.Name)
	assert.Len(t, node.Network.Interfaces, 2)
	assert.EqualValues(t, 700, *node.Fs.UsedBytes)
	assert.EqualValues(t, 123, *node.Runtime.ImageFs.UsedBytes)
	assert.EqualValues(t, 2000, *node.Runtime.ImageFs.CapacityBytes)
	assert.Nil(t, node.Runtime.ImageFs.Inodes, "a file system without a limit")
	require.Len(t, node.SystemContainers, 2)
	assert.Equal(t, []string{"kubelet", "pods"}, []string{node.SystemContainers[0].Name, node.SystemContainers[1].Name})
	assert.EqualValues(t, 600+60+90, *node.SystemContainers[1].Memory.WorkingSetBytes)

	require.Len(t, s.Pods, 3)
	web := s.Pods[0]
	assert.Equal(t, statsapi.PodReference{Namespace: "default", Name: "web", UID: "1"}, web.PodRef)
	assert.Equal(t, epoch.Add(-time.Minute), web.StartTime.Time)
	require.Len(t, web.Containers, 2)
	main, side := web.Containers[0], web.Containers[1]
	assert.Equal(t, epoch.Add(-30*time.Second), main.StartTime.Time)
	assert.EqualValues(t, 13e9, *main.CPU.UsageCoreNanoSeconds)
	assert.EqualValues(t, 1e9, *main.CPU.UsageNanoCores)
	assert.EqualValues(t, 400, *main.Memory.AvailableBytes, "up to the limit")
	assert.EqualValues(t, 40, *main.Rootfs.UsedBytes)
	assert.EqualValues(t, 2000, *main.Rootfs.CapacityBytes)
	assert.EqualValues(t, 8, *main.Logs.UsedBytes)
	assert.Nil(t, side.Memory.AvailableBytes, "without a limit")
	assert.Nil(t, side.Memory.RSSBytes, "not reported")
	assert.Nil(t, side.Swap)
	assert.Nil(t, side.Rootfs)
	assert.EqualValues(t, 25e9, *web.CPU.UsageCoreNanoSeconds, "the sum, because the runtime does not tell")
	assert.EqualValues(t, 2e9, *web.CPU.UsageNanoCores)
	assert.EqualValues(t, 660, *web.Memory.WorkingSetBytes)
	assert.EqualValues(t, 4, *web.ProcessStats.ProcessCount)
	assert.EqualValues(t, 10, *web.Network.RxBytes)
	require.Len(t, web.VolumeStats, 4, "a hostPath has no usage")
	assert.Equal(t, []string{"scratch", "memory"}, []string{web.VolumeStats[0].Name, web.VolumeStats[1].Name})
	assert.Nil(t, web.VolumeStats[0].PVCRef)
	data, own := web.VolumeStats[2], web.VolumeStats[3]
	assert.Equal(t, &statsapi.PVCReference{Namespace: "default", Name: "claim"}, data.PVCRef)
	assert.Equal(t, &statsapi.PVCReference{Namespace: "default", Name: "web-own"}, own.PVCRef)
	assert.EqualValues(t, []uint64{90, 60, 80}, []uint64{*data.CapacityBytes, *data.UsedBytes, *own.CapacityBytes})
	assert.EqualValues(t, 100, *web.VolumeStats[0].UsedBytes)
	assert.EqualValues(t, 30, *web.VolumeStats[1].UsedBytes)
	assert.EqualValues(t, 3, *web.VolumeStats[1].InodesUsed)
	assert.EqualValues(t, 40+8+16+100, *web.EphemeralStorage.UsedBytes, "layer, logs of all containers, and the emptyDir on the disk")
	assert.EqualValues(t, 4+2+1+10, *web.EphemeralStorage.InodesUsed)

	psi := func(some, full statsapi.PSIData) *statsapi.PSIStats {
		return &statsapi.PSIStats{Some: some, Full: full}
	}
	assert.Equal(t, psi(statsapi.PSIData{Total: 5, Avg10: 1, Avg60: 2, Avg300: 3}, statsapi.PSIData{}), node.CPU.PSI)
	assert.Nil(t, node.Memory.PSI, "the kernel does not tell")
	assert.Equal(t, psi(statsapi.PSIData{}, statsapi.PSIData{Total: 7}), node.IO.PSI)
	assert.Equal(t, psi(statsapi.PSIData{Total: 8}, statsapi.PSIData{}), web.Memory.PSI)
	assert.Nil(t, web.CPU.PSI)
	assert.Equal(t, psi(statsapi.PSIData{}, statsapi.PSIData{Total: 9, Avg60: 0.5}), main.CPU.PSI)
	assert.Nil(t, side.CPU.PSI)
	assert.True(t, web.IO == nil && main.IO == nil)

	assert.Empty(t, s.Pods[1].Containers)
	assert.Nil(t, s.Pods[1].CPU)
	assert.EqualValues(t, 32, *s.Pods[1].EphemeralStorage.UsedBytes)
	assert.Equal(t, "gone", s.Pods[2].PodRef.Name)
	assert.EqualValues(t, 1e9, *s.Pods[2].CPU.UsageNanoCores, "the runtime's value of the whole pod")
}

// A value that is not known is absent, and never 0.
func TestSummaryWithoutValues(t *testing.T) {
	var r rates
	s := summarize(&measurement{at: epoch, node: "n", machine: host.Usage{}, disks: &disks{}}, &r)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	for _, absent := range []string{"usageNanoCores", "network", `"fs"`, "runtime", "rlimit", "cpu", "memory"} {
		assert.NotContains(t, string(text), absent)
	}
	assert.Contains(t, string(text), `"pods":[]`, "not null")

	small := example(epoch)
	small.disks = nil
	text, err = json.Marshal(summarize(small, &rates{}))
	require.NoError(t, err)
	for _, absent := range []string{"rootfs", "logs", "volume", "ephemeral-storage", "network", "process_stats", "rlimit"} {
		assert.NotContains(t, string(text), absent)
	}
}

// The names, labels and times are those that metrics-server reads.
func TestResourceMetrics(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, WriteResourceMetrics(&out, summarize(example(epoch), &rates{})))
	const millis = " 1700000000000\n"
	for _, want := range []string{
		"# TYPE node_cpu_usage_seconds_total counter\nnode_cpu_usage_seconds_total 100" + millis,
		"# TYPE node_memory_working_set_bytes gauge\nnode_memory_working_set_bytes 5000" + millis,
		"node_swap_usage_bytes 7" + millis,
		`container_cpu_usage_seconds_total{pod="web",namespace="default",container="main"} 3` + millis,
		`container_memory_working_set_bytes{pod="web",namespace="default",container="side"} 60` + millis,
		`container_start_time_seconds{pod="web",namespace="default",container="main"} 1.69999997e+09` + "\n",
		`container_swap_usage_bytes{pod="web",namespace="default",container="main"} 5` + millis,
		`container_swap_limit_bytes{pod="web",namespace="default",container="main"} 11` + millis,
		`pod_cpu_usage_seconds_total{pod="web",namespace="default"} 5` + millis,
		`pod_memory_working_set_bytes{pod="gone",namespace="other"} 90` + millis,
		"resource_scrape_error 0\n",
	} {
		assert.Contains(t, out.String(), want)
	}
	assert.NotContains(t, out.String(), `container_start_time_seconds{pod="web",namespace="default",container="side"}`, "its start is not known")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	_, err := parser.TextToMetricFamilies(&out)
	require.NoError(t, err)

	out.Reset()
	require.NoError(t, WriteResourceMetrics(&out, nil))
	assert.Contains(t, out.String(), "resource_scrape_error 1\n")
	assert.NotContains(t, out.String(), "node_cpu")
}
