// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// collector is a node alone on its containerd, because a collection covers all pods.
type collector struct {
	*node
	manager *runtime.Manager
	policy  runtime.GCPolicy
	fates   map[types.UID]runtime.PodFate
	secret  map[runtime.ContainerID]bool // unreported exits
}

func newCollector(t testing.TB) *collector {
	n := newNodeOn(t, containerdtest.Start(t, containerdtest.Options{}), cri.Options{})
	manager, err := runtime.New(runtime.Options{Runtime: n.rt, Generator: n.gen})
	require.NoError(t, err)
	c := &collector{node: n, manager: manager, fates: map[types.UID]runtime.PodFate{}, secret: map[runtime.ContainerID]bool{}}
	c.policy.LogRoot = filepath.Join(n.root, "logs")
	return c
}

func (c *collector) collect() {
	c.Helper()
	require.NoError(c, c.manager.GarbageCollect(c.Context(), c.policy, runtime.GCQuery{
		Fate:     func(uid types.UID) runtime.PodFate { return c.fates[uid] },
		Reported: func(_ types.UID, id runtime.ContainerID) bool { return !c.secret[id] },
	}))
}

// sandbox makes a sandbox removed only by the collection.
func (c *collector) sandbox(p *v1.Pod, attempt uint32) runtime.SandboxID {
	c.Helper()
	spec, err := c.gen.Sandbox(c.Context(), p, attempt)
	require.NoError(c, err)
	id, err := c.rt.RunSandbox(c.Context(), spec)
	require.NoError(c, err)
	return id
}

// ran makes an exited instance of the container.
func (c *collector) ran(sb runtime.SandboxID, p *v1.Pod, restarts int32) runtime.ContainerID {
	c.Helper()
	id := c.startIn(sb, p, restarts)
	c.await(func() bool {
		st, err := c.rt.PodStatus(c.Context(), p.UID)
		require.NoError(c, err)
		i := slices.IndexFunc(st.Containers, func(s runtime.ContainerStatus) bool { return s.ID == id })
		return st.Containers[i].State == runtime.StateExited
	})
	return id
}

// left returns the pod's remaining containers and sandboxes.
func (c *collector) left(p *v1.Pod) (containers []runtime.ContainerID, sandboxes []runtime.SandboxID) {
	c.Helper()
	st, err := c.rt.PodStatus(c.Context(), p.UID)
	require.NoError(c, err)
	for _, s := range st.Containers {
		containers = append(containers, s.ID)
	}
	for _, s := range st.Sandboxes {
		sandboxes = append(sandboxes, s.ID)
	}
	return containers, sandboxes
}

func (c *collector) logs(p *v1.Pod) []string {
	c.Helper()
	files, err := filepath.Glob(filepath.Join(c.policy.LogRoot, "cri_"+p.Name+"_"+string(p.UID), "main", "*"))
	require.NoError(c, err)
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	return files
}

// For a live pod, the newest exited instance of each container stays, with its log, and the newest
// sandbox.
func TestGarbageOfAPodThatLives(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	p := pod("lives", "echo end")
	p.Spec.HostNetwork = true
	older := c.sandbox(p, 0)
	c.ran(older, p, 0)
	require.NoError(t, c.rt.StopSandbox(t.Context(), older))
	current := c.sandbox(p, 1)
	c.ran(current, p, 1)
	last := c.ran(current, p, 2)
	c.secret[last] = true
	c.collect()
	containers, sandboxes := c.left(p)
	assert.Equal(t, []runtime.ContainerID{last}, containers)
	assert.Equal(t, []runtime.SandboxID{current}, sandboxes)
	assert.Equal(t, []string{"2.log"}, c.logs(p))

	p.Spec.Containers[0].Command = []string{"sh", "-c", idle}
	running := c.startIn(current, p, 3)
	c.collect()
	containers, _ = c.left(p)
	assert.Equal(t, []runtime.ContainerID{running, last}, containers, "the last end is the last state of what runs")
}

// No container, sandbox, log folder or file stays of a removed pod. A log folder without a record
// is removed, too.
func TestGarbageOfAPodThatIsGone(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	p := pod("gone", idle)
	sb := c.sandbox(p, 0)
	c.startIn(sb, p, 0)
	require.NoError(t, c.rt.StopSandbox(t.Context(), sb)) // as a kill does; a ready sandbox is not garbage
	c.collect()
	containers, _ := c.left(p)
	assert.Len(t, containers, 1, "it may still be started again")

	folders := map[string]string{
		"nobody": filepath.Join(c.policy.LogRoot, "cri_nobody_uid-nobody"),
		"alive":  filepath.Join(c.policy.LogRoot, "cri_alive_uid-alive"),
	}
	for _, dir := range folders {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "main"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main", "0.log"), nil, 0o600))
	}
	c.fates[p.UID], c.fates["uid-nobody"] = runtime.PodGone, runtime.PodGone
	c.collect()
	containers, sandboxes := c.left(p)
	assert.Empty(t, containers)
	assert.Empty(t, sandboxes)
	assert.NoDirExists(t, filepath.Join(c.policy.LogRoot, "cri_gone_uid-gone"))
	assert.NoDirExists(t, filepath.Join(c.root, "pods", "uid-gone"))
	assert.NoDirExists(t, folders["nobody"])
	assert.DirExists(t, folders["alive"])
	pods, err := c.rt.List(t.Context(), runtime.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, pods)
}

// The exit of kubernetes#104107 was collected before the report, and reported with exit code
// 137. Here the container stays until the exit is reported.
func TestUpstream104107UnreportedExitStays(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	c.policy.AllUnused = true // as when disk space runs short
	p := pod("unreported", "exit 0")
	c.fates[p.UID] = runtime.PodOver
	p.Spec.HostNetwork = true
	sb := c.sandbox(p, 0)
	c.secret[c.ran(sb, p, 0)] = true
	c.collect()
	containers, _ := c.left(p)
	require.Len(t, containers, 1)
	delete(c.secret, containers[0])
	c.collect()
	containers, _ = c.left(p)
	assert.Empty(t, containers)
}
