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

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// BenchmarkBesideOthers starts a shell that opens a pipe and becomes sleep, and measures the time
// until the pipe is open and the private memory beside the workload: as a bare child process, as a
// container without and with walls, in bubblewrap with the same namespaces, and below runit's runsv.
// Programs that are not installed are left out. The ratios of a run are the result.
func BenchmarkBesideOthers(b *testing.B) {
	dir := b.TempDir()
	require.NoError(b, os.Chmod(dir, 0o777))
	pipe := filepath.Join(dir, "pipe")
	require.NoError(b, unix.Mkfifo(pipe, 0o666))
	script := ": > " + pipe + "; exec sleep 1000"
	kinds := map[string]func() (start func() (pid int), stop func()){
		"bare": func() (func() int, func()) { return child(b, "/bin/sh", "-c", script) },
	}
	for kind, opts := range map[string]process.Options{"keelson": {}, "keelson-confined": {Confine: true}} {
		e := newEnv(b)
		e.rt = e.open(opts)
		if opts.Confine && !process.HasNamespaces(e.rt) {
			continue
		}
		pod := e.pod(script)
		sandbox := e.sandbox(pod)
		restart := int32(0)
		kinds[kind] = func() (func() int, func()) {
			spec := e.spec(pod, restart)
			spec.Mounts = []runtime.Mount{{Name: "d", HostPath: dir, ContainerPath: dir}}
			if !opts.Confine {
				spec.Mounts = nil
			}
			restart++
			id, err := e.rt.CreateContainer(b.Context(), sandbox, spec)
			require.NoError(b, err)
			start := func() int {
				require.NoError(b, e.rt.StartContainer(b.Context(), id))
				return e.process(id).Shim.PID
			}
			return start, func() { require.NoError(b, e.rt.RemoveContainer(b.Context(), id)) }
		}
	}
	if program, err := exec.LookPath("bwrap"); err == nil {
		args := []string{"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
			"--proc", "/proc", "--dev", "/dev", "--bind", dir, dir}
		for _, path := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/sys"} {
			args = append(args, "--ro-bind-try", path, path)
		}
		kinds["bwrap"] = func() (func() int, func()) { return child(b, program, append(args, "/bin/sh", "-c", script)...) }
	}
	if program, err := exec.LookPath("runsv"); err == nil {
		service := filepath.Join(dir, "service")
		require.NoError(b, os.Mkdir(service, 0o755))
		require.NoError(b, os.WriteFile(filepath.Join(service, "run"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		kinds["runsv"] = func() (func() int, func()) { return child(b, program, service) }
	}
	times := map[string][]time.Duration{}
	memory := map[string]int{}
	for b.Loop() {
		for kind, prepare := range kinds {
			start, stop := prepare()
			begun := time.Now()
			pid := start()
			f, err := os.Open(pipe) // waits for the shell
			times[kind] = append(times[kind], time.Since(begun))
			require.NoError(b, err)
			require.NoError(b, f.Close())
			if len(times[kind]) == 1 && kind != "bare" {
				time.Sleep(2 * time.Second) // a shim dozes
				memory[kind] = privateMemory(b, pid)
			}
			stop()
		}
	}
	b.ReportMetric(0, "ns/op")
	for kind := range kinds {
		slices.Sort(times[kind])
		p50 := times[kind][len(times[kind])/2]
		b.ReportMetric(float64(p50.Microseconds()), kind+"-start-µs")
		if kind != "bare" {
			b.ReportMetric(float64(memory[kind]), kind+"-KiB")
		}
	}
}

// child prepares a program as the head of a process group. stop kills the group's processes.
func child(tb testing.TB, program string, args ...string) (start func() (pid int), stop func()) {
	c := exec.Command(program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	start = func() int {
		require.NoError(tb, c.Start())
		return c.Process.Pid
	}
	return start, func() {
		below := children(c.Process.Pid)
		_ = c.Process.Signal(syscall.SIGTERM) // runsv ends its service
		done := time.AfterFunc(50*time.Millisecond, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
		_ = c.Wait()
		done.Stop()
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		for _, pid := range below { // of bubblewrap, in a session of its own
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// children returns the children of a process.
func children(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range lists {
		list, _ := os.ReadFile(path)
		for _, word := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(word); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// privateMemory returns the private memory in KiB of a process and of its children but sleep, the
// workload.
func privateMemory(tb testing.TB, pid int) (kib int) {
	kib = ownPrivateMemory(tb, pid)
	for _, next := range children(pid) {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", next)); strings.TrimSpace(string(name)) != "sleep" {
			kib += privateMemory(tb, next)
		}
	}
	return kib
}

// ownPrivateMemory returns the private memory in KiB of a process.
func ownPrivateMemory(tb testing.TB, pid int) int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	require.NoError(tb, err)
	return field(tb, string(raw), "Private_Dirty:") + field(tb, string(raw), "Private_Clean:")
}

// field returns the number behind a name in a file of /proc.
func field(tb testing.TB, text, name string) (n int) {
	_, after, ok := strings.Cut(text, name)
	require.True(tb, ok, name)
	_, err := fmt.Sscan(after, &n)
	require.NoError(tb, err)
	return n
}
