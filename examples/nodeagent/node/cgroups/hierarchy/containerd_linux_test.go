// SPDX-License-Identifier: Apache-2.0

package hierarchy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// machine is an agent on a private containerd, with cgroups below one of its own.
type machine struct {
	*testing.T
	dir, root string // root is the cgroup
	agent     *node.Agent
}

func newMachine(t *testing.T, whole cgroups.Values) *machine {
	if os.Getenv("KEELSON_E2E") != "1" {
		t.Skip("takes long: runs with KEELSON_E2E=1, as in make e2e")
	}
	writer, root := newWriter(t)
	containerd := containerdtest.Start(t, containerdtest.Options{})
	m := &machine{T: t, dir: t.TempDir(), root: root}
	groups, err := cgroups.New(cgroups.Options{
		Writer: writer, Driver: cgroups.Cgroupfs, Root: root, Records: filepath.Join(m.dir, "records"),
		Settings: cgroups.Settings{PodPIDs: 50}, Node: whole,
	})
	require.NoError(t, err)
	require.NoError(t, groups.SetUp())
	backend, err := cri.Dial(t.Context(), containerd.Endpoint(), cri.Options{Root: filepath.Join(m.dir, "root"), CgroupParent: groups.Parent})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, backend.Close()) })
	pods, err := file.New(file.Config{Path: m.manifests(), Period: time.Second, Decoder: &manifest.Decoder{NodeName: "n"}})
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(m.manifests(), 0o755))
	m.agent, err = node.New(node.Options{
		NodeName: "n", Root: filepath.Join(m.dir, "root"), Runtime: backend, Sources: []podconfig.Source{pods}, OnShutdown: node.StopPods,
		Features: func(h *feature.Host) []feature.Feature { return []feature.Feature{groups.Feature(h)} },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.agent.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		left, err := os.ReadDir(filepath.Join(m.dir, "records"))
		require.NoError(t, err)
		require.Empty(t, left, "the cgroups of all pods are removed with them")
	})
	return m
}

func (m *machine) manifests() string { return filepath.Join(m.dir, "manifests") }

// write runs a pod with containers, in YAML.
func (m *machine) write(name string, containers ...string) {
	m.Helper()
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  terminationGracePeriodSeconds: 1\n  restartPolicy: Never\n  containers:\n"
	for i, c := range containers {
		text += fmt.Sprintf("  - {name: c%d, image: %q, %s}\n", i, containerdtest.BusyboxImage, c)
	}
	require.NoError(m, os.WriteFile(filepath.Join(m.manifests(), name+".yaml"), []byte(text), 0o600))
}

// wait returns the pod when ok is true for it.
func (m *machine) wait(name string, ok func(*v1.Pod) bool) (found *v1.Pod) {
	m.Helper()
	require.Eventually(m, func() bool {
		for _, pod := range m.agent.Pods() {
			if pod.Name == name+"-n" && ok(pod) {
				found = pod
			}
		}
		return found != nil
	}, time.Minute, 100*time.Millisecond)
	return found
}

func allRun(pod *v1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running == nil {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) == len(pod.Spec.Containers)
}

// sleep is the command of a container that waits and ends on SIGTERM.
const sleep = `command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.2; done"]`

func TestPodsOnContainerd(t *testing.T) {
	m := newMachine(t, cgroups.Values{CPUShares: 2048, Memory: 1 << 30, PIDs: 1000})
	limits := `resources: {limits: {cpu: 250m, memory: 32Mi}}`
	m.write("guaranteed", sleep+", "+limits, sleep+", "+limits)
	m.write("burstable", sleep+", resources: {requests: {cpu: 100m}, limits: {memory: 48Mi}}")
	m.write("besteffort", sleep)
	for name, want := range map[string][4]string{
		"guaranteed": {"512", "50000", "67108864", "50"},
		"burstable":  {"102", "-1", "50331648", "50"},
		"besteffort": {"2", "-1", "9223372036854771712", "50"},
	} {
		pod := m.wait(name, allRun)
		path := m.root + "/kubepods/" + name + "/pod" + string(pod.UID)
		if name == "guaranteed" {
			path = m.root + "/kubepods/pod" + string(pod.UID)
		}
		if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
			assert.Equal(t, want, [4]string{same(t, path, "cpu.shares"), same(t, path, "cpu.cfs_quota_us"), same(t, path, "memory.limit_in_bytes"), same(t, path, "pids.max")}, name)
		} else {
			assert.Equal(t, want[3], same(t, path, "pids.max"))
		}
		for _, c := range pod.Status.ContainerStatuses {
			_, id, _ := strings.Cut(c.ContainerID, "://")
			assert.Equal(t, "50", same(t, path, "pids.max"))
			assert.NotEmpty(t, processesIn(t, path, id), "the container is in the pod's cgroup")
		}
		require.NoError(t, os.Remove(filepath.Join(m.manifests(), name+".yaml")))
		require.Eventually(t, func() bool { return len(folders(path)) == 0 }, time.Minute, 100*time.Millisecond, "the cgroup goes with the pod")
	}
	assert.Equal(t, "1073741824", either(t, m.root+"/kubepods", "memory.limit_in_bytes", "memory.max"))
	assert.Equal(t, "1000", same(t, m.root+"/kubepods", "pids.max"))
	assert.Equal(t, "2", either(t, m.root+"/kubepods/besteffort", "cpu.shares", "cpu.weight"))
}

// Two containers without limits of their own use more memory than the pod may. The kernel kills in the
// pod, though no container is above its limit.
func TestTheLimitOfAPodHolds(t *testing.T) {
	m := newMachine(t, cgroups.Values{Memory: 1 << 30})
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: bomb}\nspec:\n  terminationGracePeriodSeconds: 1\n  restartPolicy: Never\n  resources: {limits: {memory: 32Mi, cpu: \"1\"}}\n  containers:\n"
	for i := range 2 { // the memory of /dev/shm is the pod's
		text += fmt.Sprintf("  - {name: c%d, image: %q, command: [sh, -c, \"dd if=/dev/zero of=/dev/shm/%d bs=1M count=24 && sleep 100000\"]}\n", i, containerdtest.BusyboxImage, i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(m.manifests(), "bomb.yaml"), []byte(text), 0o600))
	pod := m.wait("bomb", func(pod *v1.Pod) bool {
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Terminated != nil {
				return true
			}
		}
		return false
	})
	path := m.root + "/kubepods/pod" + string(pod.UID)
	assert.Equal(t, "33554432", either(t, path, "memory.limit_in_bytes", "memory.max"))
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			assert.EqualValues(t, 137, c.State.Terminated.ExitCode)
		}
	}
}

// same reads a file of a cgroup that has the same name with both versions, or exists with version 1.
func same(t *testing.T, cgroup, name string) string {
	t.Helper()
	return either(t, cgroup, name, name)
}

// folders returns the folders of a cgroup.
func folders(cgroup string) []string {
	legacy, _ := filepath.Glob("/sys/fs/cgroup/*" + cgroup)
	unified, _ := filepath.Glob("/sys/fs/cgroup" + cgroup)
	return append(legacy, unified...)
}

// processesIn returns the processes of a container below a pod's cgroup.
func processesIn(t *testing.T, pod, id string) string {
	t.Helper()
	for _, folder := range folders(pod + "/*" + id + "*") {
		if text, err := os.ReadFile(filepath.Join(folder, "cgroup.procs")); err == nil && len(text) > 0 {
			return string(text)
		}
	}
	return ""
}
