// SPDX-License-Identifier: Apache-2.0

package signals_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/signals"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// machine is a folder with the files of a small machine. Written files are 4 KiB per block.
type machine struct {
	*testing.T
	root, logs string
	opts       nodestats.Options
	pods       []*v1.Pod
	containers []stats.Pod
}

func newMachine(t *testing.T) *machine {
	m := &machine{T: t, root: t.TempDir(), logs: t.TempDir()}
	for name, text := range map[string]string{
		"proc/meminfo": "MemTotal: 1000 kB\nMemFree: 100 kB\nInactive(file): 50 kB\nSReclaimable: 30 kB\n",
		"proc/loadavg": "0.1 0.2 0.3 1/300 4\n", "proc/sys/kernel/pid_max": "1000\n", "proc/sys/kernel/threads-max": "900\n",
	} {
		m.write(filepath.Join(m.root, name), text)
	}
	m.opts = nodestats.Options{
		NodeName: "n", Root: m.root, LogDir: m.logs, Machine: host.Machine{Root: m.root}, Runtime: m,
		Pods: func() []*v1.Pod { return m.pods },
	}
	return m
}

func (m *machine) write(path, text string) {
	m.Helper()
	require.NoError(m, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m, os.WriteFile(path, []byte(text), 0o600))
}

func (m *machine) observer() *signals.Observer {
	m.Helper()
	c, err := nodestats.New(m.opts)
	require.NoError(m, err)
	return &signals.Observer{Collector: c}
}

// ListStats implements stats.Reader.
func (m *machine) ListStats(context.Context) ([]stats.Pod, error) { return m.containers, nil }

// ContainerStats implements stats.Reader.
func (*machine) ContainerStats(context.Context, runtime.ContainerID) (*stats.Container, error) {
	return nil, runtime.ErrNotFound
}

func TestLevels(t *testing.T) {
	m := newMachine(t)
	o := m.observer()
	levels, err := o.Levels(t.Context())
	require.NoError(t, err)
	r := levels.Readings
	memory := r[pressure.MemoryAvailable]
	assert.Equal(t, pressure.Reading{Available: 180 << 10, Capacity: 1000 << 10, At: memory.At}, memory)
	assert.WithinDuration(t, time.Now(), memory.At, time.Minute)
	assert.EqualValues(t, 600, r[pressure.PIDAvailable].Available)
	assert.EqualValues(t, 900, r[pressure.PIDAvailable].Capacity)
	assert.Positive(t, r[pressure.NodeFSAvailable].Capacity)
	assert.NotContains(t, r, pressure.ImageFSAvailable, "a runtime without images")
	assert.NotContains(t, r, pressure.AllocatableMemoryAvailable)

	// The pods have a cgroup with a limit.
	for name, text := range map[string]string{"memory.limit_in_bytes": "1000", "memory.usage_in_bytes": "700", "memory.stat": "total_inactive_file 200"} {
		m.write(filepath.Join(m.root, "cgroup/memory/kubepods", name), text)
	}
	m.opts.Cgroups, m.opts.PodsCgroup = cgroup.New(filepath.Join(m.root, "cgroup")), "/kubepods"
	levels, err = m.observer().Levels(t.Context())
	require.NoError(t, err)
	pods := levels.Readings[pressure.AllocatableMemoryAvailable]
	assert.Equal(t, pressure.Reading{Available: 500, Capacity: 1000, At: pods.At}, pods)
	assert.NotContains(t, r, pressure.ContainerFSAvailable)
	assert.Equal(t, pressure.Layout{}, levels.Layout)
}

// The layout of a runtime that does not answer any more stays, and its signals are missing.
func TestLayout(t *testing.T) {
	for folder, apart := range map[string]bool{"": false, "/dev": true} {
		m := newMachine(t)
		if folder == "" {
			folder = m.logs
		}
		var down error
		m.opts.ImageFS = func(context.Context) (stats.FileSystem, error) { return stats.FileSystem{Mountpoint: folder}, down }
		o := m.observer()
		levels, err := o.Levels(t.Context())
		require.NoError(t, err)
		assert.Equal(t, apart, levels.Layout.ImagesApart, folder)
		assert.Contains(t, levels.Readings, pressure.ImageFSAvailable)
		down = errors.New("the runtime is down")
		levels, err = o.Levels(t.Context())
		require.NoError(t, err)
		assert.Equal(t, apart, levels.Layout.ImagesApart, folder)
		assert.NotContains(t, levels.Readings, pressure.ImageFSAvailable)
		assert.Contains(t, levels.Readings, pressure.NodeFSAvailable)
	}
}

func TestUsage(t *testing.T) {
	m := newMachine(t)
	now := time.Now()
	web, idle, unknown := &v1.Pod{}, &v1.Pod{}, &v1.Pod{}
	web.Namespace, web.Name = "default", "web"
	web.UID, idle.UID, unknown.UID = "uid-web", "uid-idle", "uid-unknown"
	web.Spec.Volumes = []v1.Volume{
		{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "shared", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}},
	}
	m.pods = []*v1.Pod{web, idle}
	m.containers = []stats.Pod{{UID: web.UID, Processes: 7, Containers: []stats.Container{{
		Name: "main", Memory: stats.Memory{At: now, WorkingSet: 500}, WritableLayer: stats.FileSystem{At: now, UsedBytes: 300, InodesUsed: 3},
	}}}}
	m.write(filepath.Join(m.root, "pods/uid-web/volumes/kubernetes.io~empty-dir/scratch/file"), "x")
	m.write(filepath.Join(m.logs, "default_web_uid-web/main/0.log"), "x")
	m.write(filepath.Join(m.logs, "default_web_uid-web/init/0.log"), "x")

	all, err := m.observer().Usage(t.Context(), []*v1.Pod{unknown, web, idle})
	require.NoError(t, err)
	require.Len(t, all, 3)
	assert.Equal(t, pressure.Usage{Pod: unknown}, all[0])
	assert.Equal(t, pressure.Usage{Pod: idle, Known: true}, all[2])
	u := all[1]
	assert.Same(t, web, u.Pod)
	assert.True(t, u.Known)
	assert.EqualValues(t, 500, u.Memory)
	assert.EqualValues(t, 7, u.Processes)
	require.Len(t, u.Containers, 1)
	assert.EqualValues(t, 500, u.Containers[0].Memory)
	assert.Equal(t, pressure.Disk{Bytes: 300, Inodes: 3}, u.Containers[0].Root)
	assert.Positive(t, u.Containers[0].Logs.Bytes)
	assert.EqualValues(t, 1, u.OtherLogs.Inodes, "of the init container")
	require.Len(t, u.Volumes, 1)
	assert.Equal(t, "scratch", u.Volumes[0].Name)
	assert.True(t, u.Volumes[0].IsLocal)
	assert.Positive(t, u.Volumes[0].Used.Bytes)
}
