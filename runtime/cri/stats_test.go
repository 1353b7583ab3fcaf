// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// The stats of a container include CPU, memory and the container's file system.
func TestStats(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	p := pod("stats", `trap 'exit 0' TERM
		head -c 3000000 /dev/zero >/file
		i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done
		echo end; sleep 1000 & wait`)
	id := n.start(p)
	st, err := n.rt.PodStatus(t.Context(), p.UID)
	require.NoError(t, err)
	n.output(&st.Containers[0])

	began := time.Now()
	n.await(func() bool { // snapshots are measured every 10 s only
		got, err := n.rt.ContainerStats(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, id, got.ID)
		assert.Equal(t, "main", got.Name)
		assert.WithinDuration(t, time.Now(), got.CPU.At, 15*time.Second)
		assert.Greater(t, got.CPU.UsageNanoseconds, uint64(time.Millisecond))
		assert.Less(t, got.CPU.UsageNanoseconds, uint64(time.Minute))
		assert.Greater(t, got.Memory.Usage, uint64(50<<10))
		assert.LessOrEqual(t, got.Memory.WorkingSet, got.Memory.Usage)
		return got.WritableLayer.UsedBytes >= 3000000 && got.WritableLayer.InodesUsed > 0
	})
	t.Logf("the file was seen after %v", time.Since(began))

	used, err := n.rt.MemoryUsage(t.Context(), id)
	require.NoError(t, err)
	assert.Greater(t, used, int64(50<<10))
	assert.Less(t, used, int64(1<<30))

	pods, err := n.rt.ListStats(t.Context())
	require.NoError(t, err)
	i := slices.IndexFunc(pods, func(s stats.Pod) bool { return s.UID == p.UID })
	require.GreaterOrEqual(t, i, 0)
	got := pods[i]
	assert.Equal(t, "cri/stats", got.Namespace+"/"+got.Name)
	require.Len(t, got.Containers, 1)
	assert.Equal(t, id, got.Containers[0].ID)
	assert.False(t, got.Containers[0].CPU.At.IsZero())
}

// Stats of whole pods are reported if every pod on the runtime has its own cgroup.
func TestStatsOfWholePods(t *testing.T) {
	t.Parallel()
	const parent = "/keelson-cri-test-pod-stats"
	t.Cleanup(func() { // no other component removes the cgroup
		v1, _ := filepath.Glob("/sys/fs/cgroup/*" + parent)
		for _, dir := range append(v1, "/sys/fs/cgroup"+parent) {
			_ = os.Remove(dir)
		}
	})
	n := newNodeOn(t, containerdtest.Start(t, containerdtest.Options{}), cri.Options{
		CgroupParent: func(*v1.Pod) string { return parent },
	})
	p := pod("pod-stats", idle)
	id := n.start(p)
	st, err := n.rt.PodStatus(t.Context(), p.UID)
	require.NoError(t, err)
	pods, err := n.rt.ListStats(t.Context())
	require.NoError(t, err)
	require.Len(t, pods, 1)
	got := pods[0]
	assert.Equal(t, p.UID, got.UID)
	assert.Equal(t, st.Sandboxes[0].ID, got.Sandbox)
	assert.WithinDuration(t, time.Now(), got.CPU.At, 15*time.Second)
	assert.WithinDuration(t, time.Now(), got.Memory.At, 15*time.Second)
	assert.Equal(t, "eth0", got.Network.Interface)
	require.Len(t, got.Containers, 1)
	assert.Equal(t, id, got.Containers[0].ID)
}

func TestStatsOfWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	p := pod("no-stats", "exit 0")
	p.Spec.HostNetwork = true
	id := n.start(p)
	n.ended(p)
	_, err := n.rt.ContainerStats(t.Context(), id)
	assert.Error(t, err)
	assert.NotErrorIs(t, err, runtime.ErrNotFound)
	assert.Error(t, n.rt.UpdateResources(t.Context(), id, v1.ResourceRequirements{}))
	require.NoError(t, n.rt.RemoveContainer(t.Context(), id))
	_, err = n.rt.MemoryUsage(t.Context(), id)
	assert.ErrorIs(t, err, runtime.ErrNotFound)
	assert.ErrorIs(t, n.rt.UpdateResources(t.Context(), id, v1.ResourceRequirements{}), runtime.ErrNotFound)
	_, err = n.rt.ExecURL(t.Context(), id, []string{"true"}, runtime.Streams{Stdout: true})
	assert.ErrorIs(t, err, runtime.ErrNotFound)
	_, err = n.rt.AttachURL(t.Context(), id, runtime.Streams{Stdout: true})
	assert.ErrorIs(t, err, runtime.ErrNotFound)
}
