// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"fmt"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

// BenchmarkAgainstFloor measures a container's start (StartContainer returns,
// the command has been executed) and how late its death is noticed (SIGKILL to
// its process, Watch has hinted, PodStatus says exited), beside the same done to
// a bare child process in the same run (Start; SIGKILL, Wait returns). The
// ratios are the result; the times depend on the machine.
func BenchmarkAgainstFloor(b *testing.B) {
	e := newEnv(b)
	next, stop := iter.Pull2(e.rt.Watch(b.Context()))
	defer stop()
	pod := e.pod("")
	pod.Spec.Containers[0].Command = []string{"sleep", "1000"}
	sandbox := e.sandbox(pod)
	_, _, _ = next() // the hint a watch begins with

	sum := map[string]time.Duration{}
	n := 0
	for b.Loop() {
		c := exec.Command("sleep", "1000")
		begun := time.Now()
		require.NoError(b, c.Start())
		started := time.Now()
		_ = c.Process.Kill()
		_ = c.Wait()
		sum["start-floor"] += started.Sub(begun)
		sum["exit-floor"] += time.Since(started)

		begun = time.Now()
		id := e.create(pod, sandbox, int32(n))
		created := time.Now()
		require.NoError(b, e.rt.StartContainer(b.Context(), id))
		sum["create"] += created.Sub(begun)
		sum["start"] += time.Since(created)
		require.Equal(b, runtime.StateRunning, e.status(pod).State)
		main := e.process(id).Main

		begun = time.Now()
		require.NoError(b, main.Signal(9))
		_, err, _ := next()
		require.NoError(b, err)
		require.Equal(b, runtime.StateExited, e.status(pod).State)
		sum["exit"] += time.Since(begun)
		require.NoError(b, e.rt.RemoveContainer(b.Context(), id))
		n++
	}
	for name, d := range sum {
		b.ReportMetric(float64(d.Microseconds())/float64(n), name+"-µs")
	}
	b.ReportMetric(float64(sum["start"])/float64(sum["start-floor"]), "start-ratio")
	b.ReportMetric(float64(sum["exit"])/float64(sum["exit-floor"]), "exit-ratio")
}

// BenchmarkShimMemory reports the private and the resident memory of an idle shim. Most of the
// resident memory is the shared program.
func BenchmarkShimMemory(b *testing.B) {
	e := newEnv(b)
	_, id := e.run(e.pod("sleep 1000"))
	pid := e.process(id).Shim.PID
	time.Sleep(2 * time.Second) // the shim dozes
	var raw []byte
	for b.Loop() {
		var err error
		raw, err = os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		require.NoError(b, err)
	}
	for _, field := range []string{"Private_Dirty", "Private_Clean", "Rss"} {
		var kib float64
		_, after, ok := strings.Cut(string(raw), field+":")
		require.True(b, ok)
		_, err := fmt.Sscan(after, &kib)
		require.NoError(b, err)
		b.ReportMetric(kib, field+"-KiB")
	}
}

// BenchmarkList looks at many pods with one running container each.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			e := newEnv(b)
			for range n {
				e.run(e.pod("sleep 1000"))
			}
			b.ReportAllocs()
			for b.Loop() {
				pods, err := e.rt.List(b.Context(), runtime.ListOptions{})
				require.NoError(b, err)
				require.Len(b, pods, n)
			}
		})
	}
}
