// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// traces are the visible resources of an instance, found by other means than in the clean-up.
type traces struct {
	processes, mounts, cgroups, bridges, sockets, files []string
}

// findTraces returns the traces of i. ids are the IDs of its containers and sandboxes.
func findTraces(t *testing.T, i *Instance, ids []string) traces {
	t.Helper()
	var found traces
	// Shims and containerd name the folder, a container's cgroup names its ID.
	for _, dir := range glob(t, "/proc/[0-9]*") {
		text := readFile(dir, "cmdline") + readFile(dir, "cgroup")
		if slices.ContainsFunc(append(ids, i.layout.dir), func(s string) bool { return strings.Contains(text, s) }) && !isZombie(dir) {
			found.processes = append(found.processes, dir)
		}
	}
	for line := range strings.Lines(readFile("/proc/self", "mounts")) {
		if strings.Contains(line, i.layout.dir) {
			found.mounts = append(found.mounts, line)
		}
	}
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && slices.Contains(ids, d.Name()) {
			found.cgroups = append(found.cgroups, path)
		}
		return nil
	})
	require.NoError(t, err)
	links, err := net.Interfaces()
	require.NoError(t, err)
	for _, link := range links {
		if link.Name == i.layout.Network {
			found.bridges = append(found.bridges, link.Name)
		}
	}
	// Other instances have sockets there, too. Only their names distinguish sockets without a
	// listener.
	for _, id := range ids {
		found.sockets = append(found.sockets, glob(t, shimSockets+"/"+digest([]byte(i.Socket+"/k8s.io/"+id)))...)
	}
	found.files = slices.Concat(glob(t, i.layout.dir), glob(t, cniResults+"/"+i.layout.Network+"-*"))
	for _, id := range ids {
		found.files = append(found.files, glob(t, "/run/containerd/*/*/"+id)...)
		found.files = append(found.files, glob(t, "/var/lib/cni/*/*"+id+"*")...)
	}
	return found
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return found
}

// podCgroups is where the pods of i have their cgroups, which is the caller's to
// remove.
func podCgroups(i *Instance) string { return "/keelson-test-" + filepath.Base(i.layout.dir) }

// busyInstance returns an instance with a pod of either kind and a pod with an ended container, and
// the IDs.
func busyInstance(t *testing.T) (i *Instance, ids []string) {
	t.Helper()
	i, err := New(t.Context(), Options{})
	failOrSkip(t, err)
	t.Cleanup(func() {
		assert.NoError(t, i.Stop())
		for _, dir := range append(glob(t, "/sys/fs/cgroup/*"+podCgroups(i)), glob(t, "/sys/fs/cgroup"+podCgroups(i))...) {
			assert.NoError(t, os.Remove(dir))
		}
	})
	commands := map[string][]string{"runs": {"sleep", "1000"}, "forks": {"sh", "-c", "sleep 1000 & sleep 1000"}, "ended": {"true"}}
	pods := make(chan *pod, len(commands))
	for name, args := range commands {
		network := runtimeapi.NamespaceMode_POD
		if name == "runs" {
			network = runtimeapi.NamespaceMode_NODE
		}
		config := sandboxConfig(name, t.TempDir(), network)
		config.Linux.CgroupParent = podCgroups(i) + "/pod" + name
		go func() {
			p, err := startPod(t.Context(), i, config, command(args...))
			assert.NoError(t, err)
			pods <- p
		}()
	}
	for range commands {
		p := <-pods
		require.NotNil(t, p)
		ids = append(ids, p.sandbox, p.container)
	}
	return i, ids
}

// TestStopLeavesNothing ends an instance with running pods.
func TestStopLeavesNothing(t *testing.T) {
	i, ids := busyInstance(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var before traces
	require.NoError(t, retry(ctx, func() error { // until the forking process has started
		before = findTraces(t, i, ids)
		if n := len(before.processes); n < 1+3+3+3 {
			return fmt.Errorf("%d processes of containerd, the shims, pauses and containers", n)
		}
		return nil
	}))
	assert.NotEmpty(t, before.mounts)
	assert.NotEmpty(t, before.cgroups)
	assert.NotEmpty(t, before.bridges)
	assert.Len(t, before.sockets, 3, "one for each shim")
	assert.NotEmpty(t, before.files)
	require.NoError(t, i.Stop())
	assert.Equal(t, traces{}, findTraces(t, i, ids))
	assert.Empty(t, slices.Concat(glob(t, "/sys/fs/cgroup"+podCgroups(i)+"/pod*"), glob(t, "/sys/fs/cgroup/*"+podCgroups(i)+"/pod*")))
	assert.NoError(t, i.Stop(), "a second time")
	assert.ErrorContains(t, i.Restart(t.Context()), "stopped")
}

// TestSlotOfDeadProcess checks that the next start of an instance removes the resources of a killed
// test process.
func TestSlotOfDeadProcess(t *testing.T) {
	i, ids := busyInstance(t)
	require.NoError(t, i.slot.release(), "the kernel does this for a dead process")
	next, err := New(t.Context(), Options{})
	require.NoError(t, err)
	require.NoError(t, next.Stop())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, retry(ctx, func() error { // another test process may be at it
		if left := findTraces(t, i, ids); !reflect.DeepEqual(left, traces{}) {
			return fmt.Errorf("left: %+v", left)
		}
		return nil
	}))
	i.slot = next.slot // for the Stop at the end, which has nothing to do
	i.mu.stopped = true
}

// TestInstancesSideBySide checks that two instances do not interfere.
func TestInstancesSideBySide(t *testing.T) {
	first, second := containerd.Get(t), Start(t, Options{})
	assert.NotEqual(t, first.Socket, second.Socket)
	assert.NotEqual(t, first.Subnet, second.Subnet)
	p, err := startPod(t.Context(), first, sandboxConfig("first", t.TempDir(), runtimeapi.NamespaceMode_POD), command("sleep", "1000"))
	require.NoError(t, err)
	q, err := startPod(t.Context(), second, sandboxConfig("second", t.TempDir(), runtimeapi.NamespaceMode_POD), command("sleep", "1000"))
	require.NoError(t, err)
	assert.Contains(t, second.PIDs().Containerd, second.PID())
	require.NoError(t, second.Stop())
	assert.Equal(t, "still here", p.exec(t, "echo", "still here"))
	assert.NotEqual(t, p.container, q.container)
	require.NoError(t, p.remove(t.Context()))
}

// TestSlots checks the allocation of slots, with folders without an instance.
func TestSlots(t *testing.T) {
	dir := t.TempDir()
	first, err := takeSlot(dir)
	require.NoError(t, err)
	second, err := takeSlot(dir)
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1}, []int{first.number, second.number})

	folder := filepath.Join(t.TempDir(), folderPrefix+"x")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, first.own(folder))
	require.NoError(t, first.release())
	third, err := takeSlot(dir)
	require.NoError(t, err)
	assert.Zero(t, third.number)
	assert.NoDirExists(t, folder, "its owner is gone")
	assert.Empty(t, readFile(dir, "0"))

	elsewhere := t.TempDir()
	require.NoError(t, third.own(elsewhere))
	assert.ErrorContains(t, third.cleanUp(), "no folder of ours")
	require.NoError(t, third.release())
	fourth, err := takeSlot(dir)
	require.NoError(t, err)
	assert.Equal(t, 2, fourth.number, "a slot that cannot be cleaned up is left alone")
	assert.DirExists(t, elsewhere)
	require.NoError(t, second.release())
	require.NoError(t, fourth.release())
}
