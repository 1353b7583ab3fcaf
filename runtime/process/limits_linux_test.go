// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// cgroupEnv names the cgroup of a test that runs as another user.
const cgroupEnv = "PROCESS_TEST_CGROUP"

// limitedEnv returns a backend with a cgroup of its own, and the name of the cgroup. The test is
// skipped where no cgroup with limits can be made.
func limitedEnv(t *testing.T, opts process.Options) (e *env, name string) {
	t.Helper()
	e = newEnv(t)
	opts.Root = e.root
	if opts.Cgroup = os.Getenv(cgroupEnv); opts.Cgroup == "" {
		opts.Cgroup = fmt.Sprintf("/keelson-%s%d", testUID, time.Now().UnixNano())
	}
	rt, err := process.New(opts)
	if err != nil {
		t.Skip(err)
	}
	e.rt = rt
	t.Cleanup(func() { // before that of newEnv
		e.removeAll()
		left := slices.DeleteFunc(foldersOf(t, opts.Cgroup+"/*/"), func(path string) bool { return filepath.Base(path) == "agent" })
		assert.Empty(t, left, "cgroups that are left")
		if os.Getenv(cgroupEnv) != "" {
			return
		}
		for _, folder := range foldersOf(t, opts.Cgroup) {
			assert.NoError(t, os.Remove(folder))
		}
	})
	return e, opts.Cgroup
}

// foldersOf returns the folders of a cgroup.
func foldersOf(t *testing.T, name string) (folders []string) {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		some, err := filepath.Glob(pattern + name)
		require.NoError(t, err)
		folders = append(folders, some...)
	}
	return folders
}

// TestConformanceLimited needs cgroups: root, or a cgroup that was given to the user. KEELSON_SOAK=1 runs the
// suite with walls, too: each combination of the layers that the machine has.
func TestConformanceLimited(t *testing.T) {
	_, name := limitedEnv(t, process.Options{})
	t.Run("open", func(t *testing.T) { conformance(t, process.Options{Cgroup: name}) })
	if os.Getenv("KEELSON_SOAK") != "1" {
		return
	}
	confined := process.Options{Root: t.TempDir(), Confine: true, Cgroup: name}
	if _, err := process.New(confined); err != nil {
		t.Skip(err)
	}
	t.Run("with namespaces", func(t *testing.T) { conformance(t, confined) })
	t.Run("without namespaces", func(t *testing.T) { conformance(t, confined, process.WithoutNamespaces) })
}

func limited(pod *v1.Pod, cpu, memory string) {
	limits := v1.ResourceList{}
	for name, value := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if value != "" {
			limits[name] = resource.MustParse(value)
		}
	}
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: limits}
}

// needLimits skips the test if the host cannot limit what the pod asks for.
func needLimits(t *testing.T, e *env, pod *v1.Pod) {
	t.Helper()
	if err := e.rt.CheckPod(pod); err != nil {
		t.Skip(err)
	}
}

// hog needs 60 MB of memory.
const hog = `head -c 60000000 /dev/zero | tail -n 1 >/dev/null; exit $?`

func TestMemoryLimitHolds(t *testing.T) {
	for _, confine := range []bool{false, true} {
		t.Run(fmt.Sprintf("confine=%t", confine), func(t *testing.T) {
			e, _ := limitedEnv(t, process.Options{Confine: confine})
			pod := e.pod(hog)
			limited(pod, "", "20Mi")
			needLimits(t, e, pod)
			_, id := e.run(pod)
			c := e.exited(pod)
			assert.Equal(t, runtime.ReasonOOMKilled, c.Reason)
			assert.EqualValues(t, 137, c.ExitCode)
			require.NoError(t, e.rt.RemoveContainer(t.Context(), id))

			free := e.pod(hog)
			e.run(free)
			assert.Equal(t, runtime.ReasonCompleted, e.exited(free).Reason)
		})
	}
}

// TestLimitOfThePodHolds: two containers, each below its limit, are together above that of the pod.
func TestLimitOfThePodHolds(t *testing.T) {
	e, _ := limitedEnv(t, process.Options{})
	pod := e.pod(hog)
	pod.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("20Mi")}}
	needLimits(t, e, pod)
	e.run(pod)
	assert.Equal(t, runtime.ReasonOOMKilled, e.exited(pod).Reason)
}

func TestProcessorTimeIsLimited(t *testing.T) {
	e, _ := limitedEnv(t, process.Options{})
	pod := e.pod(`while :; do :; done`)
	limited(pod, "100m", "")
	needLimits(t, e, pod)
	_, id := e.run(pod)
	used := func() stats.CPU {
		s, err := e.rt.ContainerStats(t.Context(), id)
		require.NoError(t, err)
		return s.CPU
	}
	first := used()
	time.Sleep(2 * time.Second)
	second := used()
	cores := float64(second.UsageNanoseconds-first.UsageNanoseconds) / float64(second.At.Sub(first.At))
	assert.Less(t, cores, 0.3, "of 0.1")
	assert.Positive(t, cores)
}

// TestResizeOfProcesses: a container that needs more memory than it had at its start.
func TestResizeOfProcesses(t *testing.T) {
	e, _ := limitedEnv(t, process.Options{})
	pod := e.pod(`while [ ! -e "$KEELSON_ROOT/go" ]; do sleep 0.05; done; ` + hog)
	limited(pod, "", "20Mi")
	needLimits(t, e, pod)
	_, id := e.run(pod)
	want := v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("400Mi")}}
	require.NoError(t, e.rt.UpdateResources(t.Context(), id, want))
	told := e.status(pod).Resources.Limits.Memory().Value()
	assert.EqualValues(t, 400<<20, told)
	require.NoError(t, os.WriteFile(filepath.Join(e.folder(id), "work", "go"), nil, 0o600))
	assert.Equal(t, runtime.ReasonCompleted, e.exited(pod).Reason)
}

// TestForkBombIsBounded: the processes of all containers of the pod count, and those of Exec.
func TestForkBombIsBounded(t *testing.T) {
	e, _ := limitedEnv(t, process.Options{PodPIDs: 20})
	const bomb = `i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; echo too many`
	pod := e.pod("sh -c '" + bomb + "' 2>/dev/null; sleep 1000")
	_, id := e.run(pod)
	e.until("the limit is reached", func() bool {
		s, err := e.rt.ContainerStats(t.Context(), id)
		return err == nil && s.Processes >= 20
	})
	s, err := e.rt.ContainerStats(t.Context(), id)
	require.NoError(t, err)
	assert.LessOrEqual(t, s.Processes, uint64(20))
	assert.Empty(t, e.log(pod, 0))
	// A shell that could not fork has ended, and has left a place.
	out, text, code, err := e.rt.Exec(t.Context(), id, shell("for i in 1 2 3 4 5 6 7 8; do sleep 1 & done; wait"))
	assert.True(t, err != nil || code != 0, "a command of Exec is in the cgroup, too: %q %q", out, text)
}

// TestProcessesAreInTheirCgroup looks from outside at the container, a command of Exec and a process
// that has left the session and cleared its environment.
func TestProcessesAreInTheirCgroup(t *testing.T) {
	for _, confine := range []bool{false, true} {
		t.Run(fmt.Sprintf("confine=%t", confine), func(t *testing.T) {
			e, name := limitedEnv(t, process.Options{Confine: confine})
			folders := foldersOf(t, name)
			pod := e.pod(`setsid env -i sleep 1000 & echo up; sleep 1000`)
			_, id := e.run(pod)
			e.awaitLog(pod, "up")
			out, _, code, err := e.rt.Exec(t.Context(), id, shell(`cat /proc/self/cgroup`))
			require.NoError(t, err)
			require.Zero(t, code)
			assert.Contains(t, string(out), string(pod.UID)+"/")
			for _, folder := range folders {
				var n int
				e.until("the processes are in "+folder, func() bool {
					procs, err := filepath.Glob(folder + "/" + string(pod.UID) + "/*/cgroup.procs")
					require.NoError(t, err)
					require.Len(t, procs, 1)
					raw, err := os.ReadFile(procs[0])
					require.NoError(t, err)
					n = len(strings.Fields(string(raw)))
					return n >= 3
				})
			}
			shim := e.process(id).Shim.PID
			raw, err := os.ReadFile("/proc/" + strconv.Itoa(shim) + "/cgroup")
			require.NoError(t, err)
			assert.NotContains(t, string(raw), string(pod.UID), "the shim is outside")
			require.NoError(t, e.rt.RemoveContainer(t.Context(), id))
		})
	}
}

// TestCgroupSurvivesTheAgent: another backend value over the same state, without the option, stops the
// container and removes the cgroup.
func TestCgroupSurvivesTheAgent(t *testing.T) {
	e, name := limitedEnv(t, process.Options{})
	folders := foldersOf(t, name)
	pod := e.pod(`sleep 1000`)
	sandbox, _ := e.run(pod)
	later := e.open(process.Options{})
	require.NoError(t, later.RemoveSandbox(t.Context(), sandbox))
	for _, folder := range folders {
		assert.NoDirExists(t, filepath.Join(folder, string(pod.UID)))
	}
}

// TestProcessesInACgroupAreKilled: a process that hides from the shim, because another program has
// moved it to the container's cgroup, is killed before the cgroup is removed.
func TestProcessesInACgroupAreKilled(t *testing.T) {
	e, name := limitedEnv(t, process.Options{})
	folders := foldersOf(t, name)
	pod := e.pod(`sleep 1000`)
	_, id := e.run(pod)
	stranger := exec.Command("sleep", "1000")
	require.NoError(t, stranger.Start())
	for _, folder := range folders {
		procs, err := filepath.Glob(folder + "/" + string(pod.UID) + "/*/cgroup.procs")
		require.NoError(t, err)
		require.Len(t, procs, 1)
		require.NoError(t, os.WriteFile(procs[0], []byte(strconv.Itoa(stranger.Process.Pid)), 0))
	}
	gone := make(chan error, 1)
	go func() { gone <- stranger.Wait() }()
	require.NoError(t, e.rt.RemoveContainer(t.Context(), id))
	assert.ErrorContains(t, <-gone, "killed")
}

// TestLimitsOfAnotherUser runs the tests above as a user without rights, in a cgroup that root has
// given to the user.
func TestLimitsOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv(cgroupEnv) != "" {
		t.Skip("for root")
	}
	_, name := limitedEnv(t, process.Options{})
	folders := foldersOf(t, name)
	const user = 65534
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("process-limits-%d", os.Getpid()))
	require.NoError(t, os.Mkdir(dir, 0o700))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	paths := append([]string{dir}, folders...)
	for _, at := range folders { // what systemd gives to a unit with Delegate=yes and DelegateSubgroup=agent
		if _, err := os.Stat(filepath.Join(at, "cgroup.subtree_control")); err != nil {
			continue // version 1
		}
		agent := filepath.Join(at, "agent")
		require.NoError(t, os.Mkdir(agent, 0o755))
		t.Cleanup(func() { _ = os.Remove(agent) })
		paths = append(paths, agent, filepath.Join(agent, "cgroup.procs"), filepath.Join(at, "cgroup.procs"), filepath.Join(at, "cgroup.subtree_control"))
		place, err := os.Open(agent)
		require.NoError(t, err)
		defer place.Close()
		attr.UseCgroupFD, attr.CgroupFD = true, int(place.Fd())
	}
	for _, path := range paths {
		require.NoError(t, os.Chown(path, user, user))
	}
	binary, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	program := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(program, binary, 0o755))
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run",
		"^(TestMemoryLimitHolds|TestLimitOfThePodHolds|TestForkBombIsBounded|TestProcessesAreInTheirCgroup|TestResizeOfProcesses)$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), cgroupEnv+"="+name, "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%s", out)
	assert.NotContains(t, string(out), "--- SKIP: TestMemoryLimitHolds", "%s", out)
}

func TestCgroupOptions(t *testing.T) {
	for _, tt := range []struct {
		opts process.Options
		want string
	}{
		{process.Options{Cgroup: "relative"}, `Options.Cgroup: "relative"`},
		{process.Options{Cgroup: "/"}, `Options.Cgroup: "/"`},
		{process.Options{Cgroup: "/a/../b"}, `Options.Cgroup: "/a/../b"`},
		{process.Options{PodPIDs: -1}, "Options.PodPIDs is -1"},
		{process.Options{PodPIDs: 5}, "Options.PodPIDs: needs Options.Cgroup"},
	} {
		tt.opts.Root = t.TempDir()
		_, err := process.New(tt.opts)
		assert.ErrorContains(t, err, tt.want)
	}
}
