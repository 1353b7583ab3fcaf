// SPDX-License-Identifier: Apache-2.0

package cgroup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
)

var (
	first  = strings.Repeat("a1", 32)
	second = strings.Repeat("b2", 32)
)

// files writes files below a new folder.
func files(t *testing.T, all map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range all {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return root
}

func TestUnified(t *testing.T) {
	pod := "kubepods.slice/kubepods-pod1.slice"
	dir := pod + "/cri-containerd-" + first + ".scope"
	root := files(t, map[string]string{
		"cgroup.controllers":   "cpu memory\n",
		dir + "/cpu.stat":      "usage_usec 3000\nuser_usec 1000\nsystem_usec 2000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 5000\n",
		dir + "/memory.stat":   "anon 1\nfile 4096\n",
		dir + "/memory.peak":   "8192\n",
		dir + "/memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n",
		dir + "/pids.current":  "7\n",
		dir + "/io.stat":       "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n253:1\n",
		dir + "/cpu.pressure":  "some avg10=1.50 avg60=2.00 avg300=3.00 total=1500000\nfull avg10=0.50 avg60=0.00 avg300=0.25 total=500000\n",
		dir + "/cgroup.procs":  "42\n43\n",
		// A cgroup that the container made, under the name of another one.
		dir + "/" + second + "/cgroup.procs": "44\n",
	})
	tree := cgroup.New(root)
	tree.Find([]string{first, second})
	require.Equal(t, "/"+dir, tree.Path(first))
	require.Equal(t, "/"+pod, tree.Parent(first))
	require.Empty(t, tree.Path(second), "a container cannot pass for another")
	require.Equal(t, 42, tree.Process(first))
	require.EqualValues(t, 7, tree.Tasks(first))
	require.Zero(t, tree.Tasks(second))
	got, ok := tree.Usage(first)
	require.True(t, ok)
	stall := cgroup.Stall{
		Known: true, Some: 1500 * time.Millisecond, All: 500 * time.Millisecond,
		SomeShare: cgroup.Averages{1.5, 2, 3}, AllShare: cgroup.Averages{0.5, 0, 0.25},
	}
	assert.Equal(t, cgroup.Pressure{CPU: stall}, tree.Pressure(tree.Path(first)))
	assert.Zero(t, tree.Pressure(tree.Parent(first)), "of the pod")
	assert.Zero(t, tree.Pressure(""))
	assert.Equal(t, cgroup.Usage{
		User: time.Millisecond, System: 2 * time.Millisecond, Periods: 10, ThrottledPeriods: 4, ThrottledTime: 5 * time.Millisecond,
		Cache: 4096, MaxMemory: 8192, MemoryFailures: 3, OOMKills: 2, Tasks: 7,
		IO:       []cgroup.IO{{Device: "8:0", ReadBytes: 10, WriteBytes: 20, Reads: 1, Writes: 2}, {Device: "253:1"}},
		CPUStall: stall,
	}, got)

	_, ok = tree.Memory("/" + pod)
	require.False(t, ok, "without files")
	for limit, want := range map[string]uint64{"max\n": 0, "1000\n": 1000} {
		for name, text := range map[string]string{
			"memory.max": limit, "memory.current": "700\n", "memory.stat": "anon 1\ninactive_file 200\npgfault 5\npgmajfault 3\n",
			"memory.swap.current": "9\n", "cpu.stat": "usage_usec 4\nuser_usec 3\n",
		} {
			require.NoError(t, os.WriteFile(filepath.Join(root, pod, name), []byte(text), 0o600))
		}
		memory, known := tree.Memory("/" + pod)
		require.True(t, known)
		require.Equal(t, cgroup.Memory{Limit: want, Usage: 700, WorkingSet: 500, RSS: 1, PageFaults: 5, MajorPageFaults: 3, Swap: 9}, memory)
	}
	used, known := tree.CPU("/" + pod)
	require.True(t, known)
	require.Equal(t, 4*time.Microsecond, used)
	_, known = tree.CPU("/other")
	require.False(t, known)
	require.False(t, tree.Made("/"+pod).IsZero())
	require.True(t, tree.Made("/other").IsZero())

	require.NoError(t, os.RemoveAll(filepath.Join(root, dir)))
	_, ok = tree.Usage(first)
	require.False(t, ok)
	tree.Find(nil)
	require.Empty(t, tree.Path(first))
}

func TestLegacy(t *testing.T) {
	dir := "/kubepods/burstable/pod1/" + first
	root := files(t, map[string]string{
		"cpuacct" + dir + "/cpuacct.stat":                  "user 100\nsystem 50\n",
		"cpu" + dir + "/cpu.stat":                          "nr_periods 10\nnr_throttled 4\nthrottled_time 5000000\n",
		"memory" + dir + "/memory.stat":                    "cache 4096\nrss 1\n",
		"memory" + dir + "/memory.max_usage_in_bytes":      "8192\n",
		"memory" + dir + "/memory.failcnt":                 "3\n",
		"memory" + dir + "/memory.oom_control":             "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		"memory" + dir + "/cgroup.procs":                   "42\n",
		"pids" + dir + "/pids.current":                     "7\n",
		"blkio" + dir + "/blkio.throttle.io_service_bytes": "8:0 Read 10\n8:0 Write 20\n8:0 Sync 30\n8:0 Total 30\nTotal 30\n",
		"blkio" + dir + "/blkio.throttle.io_serviced":      "8:0 Read 1\n8:0 Write 2\n8:0 Total 3\nTotal 3\n",
	})
	require.NoError(t, os.MkdirAll(filepath.Join(root, "cpuacct/kubepods"), 0o755))
	for name, text := range map[string]string{
		"memory/kubepods/memory.limit_in_bytes": "9223372036854771712\n", "memory/kubepods/memory.usage_in_bytes": "700\n",
		"memory/kubepods/memory.stat":    "rss 1\npgfault 1\ntotal_inactive_file 800\ntotal_rss 300\ntotal_pgfault 5\ntotal_pgmajfault 3\ntotal_swap 9\n",
		"cpuacct/kubepods/cpuacct.usage": "4000\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	tree := cgroup.New(root)
	memory, ok := tree.Memory("/kubepods")
	require.True(t, ok)
	require.Equal(t, cgroup.Memory{Usage: 700, RSS: 300, PageFaults: 5, MajorPageFaults: 3, Swap: 9}, memory, "no limit, and all of it can be taken back")
	used, ok := tree.CPU("/kubepods")
	require.True(t, ok)
	require.Equal(t, 4*time.Microsecond, used)
	_, ok = tree.CPU("/other")
	require.False(t, ok)
	tree.Find([]string{first})
	require.Equal(t, dir, tree.Path(first))
	require.Equal(t, 42, tree.Process(first))
	require.EqualValues(t, 7, tree.Tasks(first))
	require.Zero(t, tree.Tasks(second))
	require.Zero(t, tree.Pressure(dir))
	got, ok := tree.Usage(first)
	require.True(t, ok)
	assert.Equal(t, cgroup.Usage{
		User: time.Second, System: 500 * time.Millisecond, Periods: 10, ThrottledPeriods: 4, ThrottledTime: 5 * time.Millisecond,
		Cache: 4096, MaxMemory: 8192, MemoryFailures: 3, OOMKills: 2, Tasks: 7,
		IO: []cgroup.IO{{Device: "8:0", ReadBytes: 10, WriteBytes: 20, Reads: 1, Writes: 2}},
	}, got)
}

// A machine without cgroups, or with other names, has no usage.
func TestUnknown(t *testing.T) {
	for _, name := range []string{"system.slice/ssh.service", "crio-" + first[:20] + ".scope", "x-" + strings.Repeat("G", 64)} {
		tree := cgroup.New(files(t, map[string]string{"cgroup.controllers": "", name + "/cpu.stat": ""}))
		tree.Find([]string{first})
		_, ok := tree.Usage(first)
		require.False(t, ok)
		require.Zero(t, tree.Process(first))
		require.Empty(t, tree.Parent(first))
	}
}

func TestMachinePressure(t *testing.T) {
	root := files(t, map[string]string{"proc/pressure/io": "some avg10=0.00 avg60=0.10 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n"})
	assert.Equal(t, cgroup.Pressure{IO: cgroup.Stall{Known: true, Some: 7 * time.Microsecond, All: 3 * time.Microsecond, SomeShare: cgroup.Averages{1: 0.1}}}, cgroup.MachinePressure(root))
	assert.Zero(t, cgroup.MachinePressure(t.TempDir()))
}
