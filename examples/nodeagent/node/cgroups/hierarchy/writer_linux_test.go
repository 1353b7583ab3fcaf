// SPDX-License-Identifier: Apache-2.0

package hierarchy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups/hierarchy"
)

// newWriter returns a Writer of this machine and the path of a cgroup that no other test uses.
func newWriter(t *testing.T) (*hierarchy.Writer, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	w, err := hierarchy.New(cgroups.Cgroupfs)
	if err != nil {
		t.Skip(err)
	}
	name := fmt.Sprintf("/keelson-%s-%d", strings.ToLower(t.Name()), os.Getpid())
	if err := w.Ensure(name, cgroups.Values{}); err != nil {
		t.Skip("cannot make cgroups: ", err)
	}
	t.Cleanup(func() {
		require.NoError(t, w.Kill(context.WithoutCancel(t.Context()), name))
		require.NoError(t, w.Remove(context.WithoutCancel(t.Context()), name))
		_, exists, err := w.Limits(name)
		require.NoError(t, err)
		require.False(t, exists)
	})
	return w, name
}

// either reads a file of a cgroup, by its name with cgroup version 1 or with version 2.
func either(t *testing.T, cgroup, legacy, unified string) string {
	t.Helper()
	controller, _, _ := strings.Cut(legacy, ".")
	for _, path := range []string{filepath.Join("/sys/fs/cgroup", controller, cgroup, legacy), filepath.Join("/sys/fs/cgroup", cgroup, unified)} {
		if text, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	t.Fatalf("neither %s nor %s of %s", legacy, unified, cgroup)
	return ""
}

func TestWriter(t *testing.T) {
	w, name := newWriter(t)
	pod := name + "/burstable/podu"
	_, exists, err := w.Limits(pod)
	require.NoError(t, err)
	require.False(t, exists)
	require.NoError(t, w.Ensure(pod, cgroups.Values{CPUShares: 512, CPUQuota: 50000, Memory: 64 << 20, PIDs: 20}))
	v, exists, err := w.Limits(pod)
	require.NoError(t, err)
	require.True(t, exists)
	assert.Equal(t, cgroups.Values{CPUQuota: 50000, Memory: 64 << 20, PIDs: 20}, v)
	assert.Contains(t, []string{"512", "20"}, either(t, pod, "cpu.shares", "cpu.weight"))

	require.NoError(t, w.Ensure(pod, cgroups.Values{PIDs: 30}))
	v, _, err = w.Limits(pod)
	require.NoError(t, err)
	assert.Equal(t, cgroups.Values{CPUQuota: 50000, Memory: 64 << 20, PIDs: 30}, v, "others are left")
	require.NoError(t, w.Ensure(pod, cgroups.Values{CPUQuota: -1, Memory: -1, PIDs: -1}))
	v, _, err = w.Limits(pod)
	require.NoError(t, err)
	assert.Equal(t, cgroups.Values{CPUQuota: -1, Memory: -1, PIDs: -1}, v)

	// A process in a cgroup below.
	container := pod + "/container"
	require.NoError(t, w.Ensure(container, cgroups.Values{}))
	sleeper := exec.Command("sleep", "1000")
	require.NoError(t, sleeper.Start())
	ended := make(chan error, 1)
	go func() { ended <- sleeper.Wait() }()
	folder := filepath.Join("/sys/fs/cgroup/memory", container)
	if _, err := os.Stat(folder); err != nil {
		folder = filepath.Join("/sys/fs/cgroup", container)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0o600))
	require.ErrorIs(t, w.Remove(context.WithoutCancel(t.Context()), pod), cgroups.ErrBusy)
	require.NoError(t, w.Kill(context.WithoutCancel(t.Context()), pod))
	require.ErrorContains(t, <-ended, "killed")
	require.NoError(t, w.Remove(context.WithoutCancel(t.Context()), pod))
	_, exists, err = w.Limits(pod)
	require.NoError(t, err)
	require.False(t, exists)
	require.NoError(t, w.Kill(context.WithoutCancel(t.Context()), pod))
	require.NoError(t, w.Remove(context.WithoutCancel(t.Context()), pod))
}
