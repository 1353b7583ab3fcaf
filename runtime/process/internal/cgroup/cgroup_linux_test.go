// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

func TestHierarchies(t *testing.T) {
	for _, tt := range []struct {
		name, mounts string
		want         map[string]string
	}{
		{"version 2", `30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate`, map[string]string{unified: "/sys/fs/cgroup"}},
		{"hybrid", `31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 none rw
32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct
33 25 0:29 / /sys/fs/cgroup/memory rw shared:6 master:1 - cgroup cgroup rw,memory
34 25 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd`, map[string]string{
			unified: "/sys/fs/cgroup/unified", "cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
			"memory": "/sys/fs/cgroup/memory",
		}},
		{"none", "22 1 8:1 / / rw - ext4 /dev/sda rw\nnonsense", map[string]string{}},
	} {
		got, err := hierarchies(strings.NewReader(tt.mounts))
		require.NoError(t, err, tt.name)
		assert.Equal(t, tt.want, got, tt.name)
	}
}

// folder makes a folder with files, as the kernel does.
func folder(t *testing.T, at string, files map[string]string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(at, 0o755))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o644))
	}
}

func contents(t *testing.T, at string) map[string]string {
	t.Helper()
	names, err := os.ReadDir(at)
	require.NoError(t, err)
	out := map[string]string{}
	for _, e := range names {
		if raw, err := os.ReadFile(filepath.Join(at, e.Name())); err == nil {
			out[e.Name()] = string(raw)
		}
	}
	return out
}

// TestDelegated: a cgroup of version 2 gives its children the controllers that it has. The missing ones
// are named.
func TestDelegated(t *testing.T) {
	root := t.TempDir()
	at := filepath.Join(root, "agents")
	folder(t, at, map[string]string{"cgroup.controllers": "cpu memory", "cgroup.subtree_control": "memory"})
	p, err := open(map[string]string{unified: root}, "/agents", "/user/shell")
	require.NoError(t, err)
	assert.Equal(t, []string{at}, p.folders)
	assert.Equal(t, "+cpu", contents(t, at)["cgroup.subtree_control"])
	assert.Empty(t, p.Lacks("memory"))
	assert.Empty(t, p.Lacks("cpu"))
	assert.Equal(t, at+" has no controller pids", p.Lacks("pids"))
	assert.Equal(t, []string{at + "/uid/c"}, p.Group("uid", "c").Folders)

	_, err = open(map[string]string{}, "/agents", "")
	assert.ErrorContains(t, err, "no such cgroups")
}

// TestOwn: in version 2, a process enters another cgroup only if the agent may write to the cgroup above
// both. Without the check, each start of a container failed.
func TestOwn(t *testing.T) {
	for text, want := range map[string]string{
		"0::/user.slice/agent\n": "/user.slice/agent", "4:memory:/a\n1:name=systemd:/b\n0::/\n": "/", "1:cpu:/a\n": "", "0::/../x\n": "",
	} {
		assert.Equal(t, want, ownOf(text), text)
	}
	for own, want := range map[string]string{
		"/user/agents": "/user/agents", "/user/agents/shell": "/user/agents", "/user/agentsmith": "/user", "/user": "/user", "/use": "/", "/": "/",
	} {
		assert.Equal(t, want, above("/user/agents", own), own)
	}
	root := t.TempDir()
	folder(t, root, map[string]string{"cgroup.procs": ""})
	require.NoError(t, os.Chmod(filepath.Join(root, "cgroup.procs"), 0o444))
	require.NoError(t, rootOf(root).admits("/user/agents", ""), "the own cgroup is not visible")
	require.NoError(t, rootOf(root).admits("/user/agents", "/user/shell"), "the kernel has no such file")
	err := rootOf(root).admits("/user/agents", "/init")
	if os.Getuid() == 0 {
		require.NoError(t, err, "root may write all files")
		return
	}
	assert.ErrorContains(t, err, "the agent in /init may not move processes to /user/agents")
	assert.ErrorIs(t, err, os.ErrPermission)
}

// TestLimits: the values of each version. The files of the other version do not exist.
func TestLimits(t *testing.T) {
	l := record.Limits{Memory: 64 << 20, CPU: 250, Weight: 100, PIDs: 7}
	names := func(all map[string]string) map[string]string {
		empty := map[string]string{}
		for name := range all {
			empty[name] = ""
		}
		return empty
	}
	two := map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "cpu.max": "25000 100000", "cpu.weight": "4", "pids.max": "7",
	}
	at := t.TempDir()
	folder(t, at, names(two))
	require.NoError(t, limit([]string{at}, l))
	assert.Equal(t, two, contents(t, at))

	memory := map[string]string{"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864"}
	cpu := map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "25000", "cpu.shares": "102"}
	pids := map[string]string{"pids.max": "7"}
	var folders []string
	for _, files := range []map[string]string{memory, cpu, pids} {
		at := t.TempDir()
		folder(t, at, names(files))
		folders = append(folders, at)
	}
	require.NoError(t, limit(folders, l))
	assert.Equal(t, []map[string]string{memory, cpu, pids}, []map[string]string{contents(t, folders[0]), contents(t, folders[1]), contents(t, folders[2])})

	assert.ErrorContains(t, limit([]string{t.TempDir()}, l), "memory.limit_in_bytes", "a limit that cannot be written is an error")
	assert.NoError(t, limit([]string{t.TempDir()}, record.Limits{}))
}

func TestUsage(t *testing.T) {
	at := t.TempDir()
	folder(t, at, map[string]string{
		"memory.current": "1000\n", "memory.stat": "anon 300\nfile 700\ninactive_file 400\n", "cpu.stat": "usage_usec 5\nuser_usec 5\n",
		"pids.current": "3\n", "memory.events": "low 0\noom 1\noom_kill 2\n",
	})
	g := &record.Cgroup{Folders: []string{at}}
	assert.Equal(t, Usage{CPU: 5000, Memory: 1000, WorkingSet: 600, RSS: 300, Processes: 3}, UsageOf(g))
	assert.True(t, OOMKilled(g))
	folder(t, at, map[string]string{"memory.events": "oom 1\noom_kill 0\n"})
	assert.False(t, OOMKilled(g))
	assert.False(t, OOMKilled(&record.Cgroup{Folders: []string{"/nonexistent"}}))
}
