// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// many is the number of containers of BenchmarkManyBesideRunit. runsvdir has at most 1,000 services.
const many = 1000

// BenchmarkManyBesideRunit starts many shells that write a byte and become sleep: as services below
// runsvdir, and as containers, without and with walls. It measures the time until all have written,
// the private memory of the shims beside the workload, the memory of this process, which is the agent
// and has the whole test program, its processor time in ten idle seconds with the shims', and the
// time until all have been stopped with a grace period of a second. Service folders and containers
// are made before. Run it with -benchtime=1x.
func BenchmarkManyBesideRunit(b *testing.B) {
	dir := b.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(b, unix.Mkfifo(pipe, 0o666))
	script := "echo > " + pipe + "; exec sleep 1000"
	for b.Loop() {
		base := manyServices(b, dir, pipe, script)
		for kind, opts := range map[string]process.Options{"open": {}, "confined": {Confine: true}} {
			started := manyContainers(b, kind, opts, dir, pipe, script)
			if base > 0 {
				b.ReportMetric(float64(started)/float64(base), kind+"-start-ratio")
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// awaitBytes waits until all shells have written to the pipe.
func awaitBytes(b *testing.B, pipe string) (done func() time.Time) {
	f, err := os.OpenFile(pipe, os.O_RDWR, 0)
	require.NoError(b, err)
	end := make(chan time.Time, 1)
	go func() {
		buf := make([]byte, 4096)
		for got := 0; got < many; {
			n, err := f.Read(buf)
			if err != nil {
				break
			}
			got += n
		}
		end <- time.Now()
		_ = f.Close()
	}()
	return func() time.Time { return <-end }
}

// manyServices returns the time of the start below runsvdir, or 0 without runit.
func manyServices(b *testing.B, dir, pipe, script string) time.Duration {
	if _, err := exec.LookPath("runsvdir"); err != nil {
		return 0
	}
	services := filepath.Join(dir, "services")
	for i := range many {
		service := filepath.Join(services, strconv.Itoa(i))
		require.NoError(b, os.MkdirAll(service, 0o755))
		require.NoError(b, os.WriteFile(filepath.Join(service, "run"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	done := awaitBytes(b, pipe)
	c := exec.Command("runsvdir", services)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begun := time.Now()
	require.NoError(b, c.Start())
	took := done().Sub(begun)
	b.ReportMetric(took.Seconds(), "runit-start-s")
	kib := 0
	runsvs := children(c.Process.Pid)
	for _, pid := range runsvs {
		kib += privateMemory(b, pid)
	}
	b.ReportMetric(float64(kib)/float64(len(runsvs)), "runit-KiB-each")
	// runsvdir ends its services by SIGTERM to each runsv.
	begun = time.Now()
	require.NoError(b, c.Process.Signal(syscall.SIGHUP))
	_ = c.Wait()
	for _, pid := range runsvs {
		for syscall.Kill(pid, 0) == nil && time.Since(begun) < time.Minute {
			time.Sleep(time.Millisecond)
		}
	}
	b.ReportMetric(time.Since(begun).Seconds(), "runit-stop-s")
	require.NoError(b, os.RemoveAll(services))
	return took
}

func manyContainers(b *testing.B, kind string, opts process.Options, dir, pipe, script string) time.Duration {
	e := newEnv(b)
	e.rt = e.open(opts)
	ids := make([]runtime.ContainerID, many)
	begun := time.Now()
	for i := range ids {
		pod := e.pod(script)
		spec := e.spec(pod, 0)
		if opts.Confine {
			spec.Mounts = []runtime.Mount{{Name: "d", HostPath: dir, ContainerPath: dir}}
		}
		var err error
		ids[i], err = e.rt.CreateContainer(b.Context(), e.sandbox(pod), spec)
		require.NoError(b, err)
	}
	b.ReportMetric(time.Since(begun).Seconds(), kind+"-create-s")

	done := awaitBytes(b, pipe)
	begun = time.Now()
	inParallel(b, ids, func(id runtime.ContainerID) error { return e.rt.StartContainer(b.Context(), id) })
	took := done().Sub(begun)
	b.ReportMetric(took.Seconds(), kind+"-start-s")
	kib := 0
	pids := []int{os.Getpid()}
	for _, id := range ids {
		pid := e.process(id).Shim.PID
		pids = append(pids, pid)
		kib += ownPrivateMemory(b, pid)
	}
	b.ReportMetric(float64(kib)/many, kind+"-KiB-each")
	raw, err := os.ReadFile("/proc/self/status")
	require.NoError(b, err)
	b.ReportMetric(float64(field(b, string(raw), "VmRSS:"))/1024, kind+"-agent-MiB")

	before := processorTime(b, pids)
	const idle = 10 * time.Second
	time.Sleep(idle)
	b.ReportMetric(100*(processorTime(b, pids)-before).Seconds()/idle.Seconds(), kind+"-idle-%")

	begun = time.Now()
	inParallel(b, ids, func(id runtime.ContainerID) error { return e.rt.StopContainer(b.Context(), id, time.Second) })
	b.ReportMetric(time.Since(begun).Seconds(), kind+"-stop-s")
	return took
}

// inParallel calls f for each container, eight at a time.
func inParallel(b *testing.B, ids []runtime.ContainerID, f func(runtime.ContainerID) error) {
	next := make(chan runtime.ContainerID)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for id := range next {
				if err := f(id); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for _, id := range ids {
		next <- id
	}
	close(next)
	all.Wait()
}

// field returns the number behind a name in a file of /proc.
func field(tb testing.TB, text, name string) (n int) {
	_, after, ok := strings.Cut(text, name)
	require.True(tb, ok, name)
	_, err := fmt.Sscan(after, &n)
	require.NoError(tb, err)
	return n
}

// processorTime returns the processor time of processes.
func processorTime(tb testing.TB, pids []int) (sum time.Duration) {
	for _, pid := range pids {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		require.NoError(tb, err)
		for _, thread := range threads {
			raw, _ := os.ReadFile(thread) // it may have ended
			n, _, _ := strings.Cut(string(raw), " ")
			ns, _ := strconv.ParseInt(n, 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}
