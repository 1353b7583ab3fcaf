// SPDX-License-Identifier: Apache-2.0

package cgroups_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/runtime"
)

// bench is a node of which only the cgroups are there.
type bench struct {
	*testing.T
	writer  *memory
	opts    cgroups.Options
	groups  *cgroups.Groups
	feature feature.Feature

	mu     sync.Mutex
	events []string
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, writer: newMemory()}
	b.opts = cgroups.Options{
		Writer: b.writer, Driver: cgroups.Cgroupfs, Records: filepath.Join(t.TempDir(), "cgroups"), NodeName: "n",
		Node: cgroups.Values{CPUShares: 2048, Memory: 1 << 30, PIDs: 1000},
	}
	return b
}

// start begins the life of an agent.
func (b *bench) start() {
	b.Helper()
	var err error
	b.groups, err = cgroups.New(b.opts)
	require.NoError(b, err)
	require.NoError(b, b.groups.SetUp())
	sourced := make(chan struct{})
	close(sourced)
	b.feature = b.groups.Feature(&feature.Host{Table: feature.NewTable(), Events: b, Sourced: sourced})
	b.feature.Open()
}

// Event implements runtime.EventRecorder.
func (b *bench) Event(_ apiruntime.Object, kind, reason, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, kind+" "+reason+" "+message)
}

// Eventf implements runtime.EventRecorder.
func (b *bench) Eventf(o apiruntime.Object, kind, reason, format string, args ...any) {
	b.Event(o, kind, reason, fmt.Sprintf(format, args...))
}

func (b *bench) told() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.events, "\n")
}

// sync calls the hooks around a sync. between stands for the steps of the runtime.
func (b *bench) sync(pod *v1.Pod, runs bool, between func()) {
	b.Helper()
	status := &runtime.PodStatus{}
	if runs {
		status.Sandboxes = []runtime.SandboxStatus{{Ready: true}}
	}
	_, err := b.feature.Around(b.Context(), &runtime.SyncRequest{Pod: pod, Status: status})
	require.NoError(b, err)
	if between != nil {
		between()
	}
	b.feature.Synced(b.Context(), pod, &runtime.Result{})
}

func burstable(uid types.UID, cpu, memory string) *v1.Pod {
	pod := podOf(asks(list("cpu", cpu, "memory", "1"), list("cpu", cpu, "memory", memory)))
	pod.UID = uid
	return pod
}

// check compares the limits of the pod's cgroup.
func (b *bench) check(pod *v1.Pod, quota, memory int64) {
	b.Helper()
	v, exists := b.writer.value(b.groups.Parent(pod))
	require.True(b, exists)
	assert.Equal(b, [2]int64{quota, memory}, [2]int64{v.CPUQuota, v.Memory})
}

func TestAPodsWay(t *testing.T) {
	b := newBench(t)
	b.start()
	assert.Equal(t, []string{"/kubepods", "/kubepods/besteffort", "/kubepods/burstable"}, b.writer.names())
	pod := burstable("u", "500m", "100")
	b.sync(pod, false, func() { b.check(pod, 50000, 100) })
	v, _ := b.writer.value("/kubepods/burstable/podu")
	assert.Equal(t, cgroups.Values{CPUShares: 512, CPUQuota: 50000, Memory: 100, PIDs: -1}, v)
	assert.FileExists(t, filepath.Join(b.opts.Records, "u"))

	// A resize: limits grow before the containers, and shrink after them.
	b.sync(burstable("u", "1", "50"), true, func() { b.check(pod, 100000, 100) })
	b.check(pod, 100000, 50)
	b.sync(burstable("u", "250m", "200"), true, func() { b.check(pod, 100000, 200) })
	b.check(pod, 25000, 200)

	// A failed sync leaves the larger limits. So does the kernel's refusal.
	_, err := b.feature.Around(t.Context(), &runtime.SyncRequest{Pod: burstable("u", "250m", "10"), Status: &runtime.PodStatus{Sandboxes: []runtime.SandboxStatus{{Ready: true}}}})
	require.NoError(t, err)
	b.feature.Synced(t.Context(), burstable("u", "250m", "10"), &runtime.Result{Steps: []runtime.Step{{Err: &runtime.StepError{Cause: errors.New("no")}}}})
	b.check(pod, 25000, 200)
	b.sync(burstable("u", "250m", "10"), true, func() { b.writer.change(func() { b.writer.refuse["/kubepods/burstable/podu"] = errors.New("busy") }) })
	b.check(pod, 25000, 200)
	b.writer.change(func() { clear(b.writer.refuse) })
	b.sync(burstable("u", "250m", "10"), true, nil)
	b.check(pod, 25000, 10)

	// The next agent finds what it would write.
	b.start()
	b.sync(burstable("u", "500m", "5"), true, func() { b.check(pod, 50000, 10) })
	b.check(pod, 50000, 5)

	// Another program has removed the cgroup of a pod that has lost its sandbox.
	require.NoError(t, b.writer.Remove(t.Context(), "/kubepods/burstable/podu"))
	b.sync(pod, false, nil)
	b.check(pod, 50000, 100)

	b.writer.change(func() { b.writer.processes["/kubepods/burstable/podu"] = true })
	require.NoError(t, b.feature.Release(t.Context(), pod))
	require.NoError(t, b.feature.Release(t.Context(), pod))
	assert.Equal(t, []string{"/kubepods", "/kubepods/besteffort", "/kubepods/burstable"}, b.writer.names())
	assert.NoFileExists(t, filepath.Join(b.opts.Records, "u"))
}

// The cgroup of a pod whose containers run is never made smaller by a new agent before the containers.
func TestACgroupThatCannotBeMade(t *testing.T) {
	b := newBench(t)
	b.start()
	b.writer.change(func() { b.writer.refuse["/kubepods/burstable/podu"] = errors.New("no space") })
	_, err := b.feature.Around(t.Context(), &runtime.SyncRequest{Pod: burstable("u", "1", "1Gi"), Status: &runtime.PodStatus{}})
	require.EqualError(t, err, "cgroup /kubepods/burstable/podu: no space")
	assert.Equal(t, "Warning FailedToCreatePodContainer unable to ensure pod container exists: cgroup /kubepods/burstable/podu: no space", b.told())
	_, err = b.feature.Around(t.Context(), &runtime.SyncRequest{Pod: burstable("../u", "1", "1Gi"), Status: &runtime.PodStatus{}})
	require.ErrorContains(t, err, `"pod../u" is no name of a cgroup`)
}

func TestSharedCgroupsAndLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		old, busy, kept := burstable("old", "1", "1Gi"), burstable("busy", "1", "1Gi"), burstable("kept", "250m", "1Gi")
		for _, pod := range []*v1.Pod{old, busy, kept} {
			b.sync(pod, false, nil)
		}
		require.NoError(t, b.writer.Ensure("/kubepods/podother", cgroups.Values{})) // of another program
		require.NoError(t, os.WriteFile(filepath.Join(b.opts.Records, "torn"), nil, 0o600))
		b.writer.change(func() {
			b.writer.processes["/kubepods/burstable/podbusy"] = true
			b.writer.refuse["/kubepods"] = nil
		})

		b.start() // after the death of the agent, the pods old and busy are not configured any more
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.feature.Run(ctx) }()
		known := func(uid types.UID) bool { return uid == "kept" }
		b.sync(kept, true, nil)
		b.feature.Housekeep(known)
		synctest.Wait()
		whole, _ := b.writer.value("/kubepods")
		want := b.opts.Node
		want.MemoryMin = cgroups.Unlimited
		assert.Equal(t, want, whole)
		assert.Equal(t, "Normal NodeAllocatableEnforced Updated Node Allocatable limit across pods", b.told())
		class, _ := b.writer.value("/kubepods/burstable")
		assert.EqualValues(t, 256, class.CPUShares)
		class, _ = b.writer.value("/kubepods/besteffort")
		assert.EqualValues(t, 2, class.CPUShares)
		assert.Equal(t, []string{"/kubepods", "/kubepods/besteffort", "/kubepods/burstable", "/kubepods/burstable/podbusy", "/kubepods/burstable/podkept", "/kubepods/podother"}, b.writer.names())
		b.writer.change(func() { clear(b.writer.processes) })
		b.feature.Housekeep(known)
		synctest.Wait()
		_, exists := b.writer.value("/kubepods/burstable/podbusy")
		assert.False(t, exists)
		records, err := os.ReadDir(b.opts.Records)
		require.NoError(t, err)
		require.Len(t, records, 1)

		b.feature.Housekeep(func(types.UID) bool { return false }) // between the end of a pod and its release
		synctest.Wait()
		_, exists = b.writer.value("/kubepods/burstable/podkept")
		assert.True(t, exists, "a cgroup that this agent has used goes with its pod")

		// The limits of all pods are written each minute, and a refusal is told each time.
		b.writer.change(func() { b.writer.refuse["/kubepods"] = errors.New("busy") })
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		assert.Equal(t, 2, strings.Count(b.told(), "Warning FailedNodeAllocatableEnforcement Failed to update Node Allocatable Limits: cgroup /kubepods: busy"))
		b.writer.change(func() { clear(b.writer.refuse) })
		time.Sleep(5 * time.Minute)
		assert.Equal(t, 2, strings.Count(b.told(), "Normal NodeAllocatableEnforced"))

		require.NoError(t, b.feature.Release(t.Context(), kept))
		synctest.Wait()
		class, _ = b.writer.value("/kubepods/burstable")
		assert.EqualValues(t, 2, class.CPUShares)
		cancel()
		require.NoError(t, <-done)
	})
}

// With a reservation of memory, the cgroups above the pods protect the sums of the requests: else the
// protection of the pods would be void.
func TestMemoryOfPodsIsProtected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.opts.Settings.ProtectsMemory = true
		b.start()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.feature.Run(ctx) }()
		all := list("cpu", "1", "memory", "100Mi")
		guaranteed := podOf(asks(all, all))
		guaranteed.UID = "g"
		first, second := podOf(asks(list("memory", "10Mi"), nil)), podOf(asks(list("memory", "20Mi"), nil))
		first.UID, second.UID = "b", "c"
		for _, pod := range []*v1.Pod{guaranteed, first, second} {
			b.sync(pod, false, nil)
		}
		synctest.Wait()
		protected := func() (found []string) {
			for _, name := range b.writer.names() {
				v, _ := b.writer.value(name)
				if v.MemoryMin > 0 || v.MemoryLow > 0 {
					found = append(found, fmt.Sprintf("%s min=%d low=%d", name, v.MemoryMin/mib, v.MemoryLow/mib))
				}
			}
			return found
		}
		assert.Equal(t, []string{
			"/kubepods min=130 low=0", "/kubepods/burstable min=0 low=30", "/kubepods/burstable/podb min=0 low=10", "/kubepods/burstable/podc min=0 low=20", "/kubepods/podg min=100 low=0",
		}, protected())
		for _, pod := range []*v1.Pod{guaranteed, first, second} {
			require.NoError(t, b.feature.Release(t.Context(), pod))
		}
		synctest.Wait()
		assert.Empty(t, protected())
		cancel()
		require.NoError(t, <-done)
	})
}

func TestSetUp(t *testing.T) {
	b := newBench(t)
	b.opts.Root = "/a"
	setUp := func() error {
		g, err := cgroups.New(b.opts)
		require.NoError(t, err)
		return g.SetUp()
	}
	require.ErrorContains(t, setUp(), "cgroup /a, which is to hold the cgroups of pods, is missing")
	require.NoError(t, b.writer.Ensure("/a", cgroups.Values{}))
	require.NoError(t, setUp())
	b.opts.Reserved = []cgroups.Reserved{{Path: "/system", Values: cgroups.Values{Memory: 7}}}
	require.ErrorContains(t, setUp(), "reserved cgroup /system does not exist")
	require.NoError(t, b.writer.Ensure("/system", cgroups.Values{}))
	require.NoError(t, setUp())
	v, _ := b.writer.value("/system")
	assert.EqualValues(t, 7, v.Memory)

	for want, o := range map[string]cgroups.Options{
		"Options.Writer":                 {Driver: cgroups.Cgroupfs, Records: "r"},
		"Options.Records":                {Writer: b.writer, Driver: cgroups.Cgroupfs},
		"Options.Driver, Options.Root: ": {Writer: b.writer, Records: "r"},
		`Options.Root: "b_c" is no part`: {Writer: b.writer, Records: "r", Driver: cgroups.Systemd, Root: "/b_c"},
	} {
		_, err := cgroups.New(o)
		require.ErrorContains(t, err, want)
	}
}
