// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/logs"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

var _ logs.LogReopener = (*process.Runtime)(nil)

// lines reads a log as logs.Read does.
func (e *env) lines(pod *v1.Pod, restart int32) []string {
	e.Helper()
	var out bytes.Buffer
	_, err := logs.Read(e.Context(), logs.Request{Path: e.spec(pod, restart).LogPath, Stdout: &out})
	require.NoError(e, err)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// numbers reads a log of ascending numbers without gaps, and returns the last number.
func (e *env) numbers(pod *v1.Pod, restart int32) int {
	e.Helper()
	last := 0
	for i, line := range e.lines(pod, restart) {
		n, err := strconv.Atoi(line)
		require.NoError(e, err)
		require.True(e, i == 0 || n == last+1, "%d after %d", n, last)
		last = n
	}
	return last
}

// logFiles returns how many log files the pod's container has, and their bytes.
func (e *env) logFiles(pod *v1.Pod) (files int, size int64) {
	e.Helper()
	entries, err := os.ReadDir(filepath.Dir(e.spec(pod, 0).LogPath))
	require.NoError(e, err)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil { // else it was rotated just now
			files, size = files+1, size+info.Size()
		}
	}
	return files, size
}

func TestFloodLeavesTheNewestLines(t *testing.T) {
	e := newEnv(t)
	const size, count = 64 << 10, 3
	e.rt = e.open(process.Options{MaxLogSize: size, MaxLogFiles: count})
	pod := e.pod("seq 1 20000") // 1 MB with its stamps
	_, id := e.run(pod)
	require.Zero(t, e.exited(pod).ExitCode)
	files, bytes := e.logFiles(pod)
	assert.Equal(t, count, files)
	assert.LessOrEqual(t, bytes, int64(size*count))
	assert.Greater(t, bytes, int64(size*(count-1)-count*100))
	assert.Equal(t, 20000, e.numbers(pod, 0))
	raw, err := os.ReadFile(filepath.Join(e.folder(id), record.LockFile))
	require.NoError(t, err)
	assert.Empty(t, string(raw))
}

func TestLongLinesAreRotatedBetweenTheirPieces(t *testing.T) {
	e := newEnv(t)
	const size = 40 << 10
	e.rt = e.open(process.Options{MaxLogSize: size, MaxLogFiles: 2})
	pod := e.pod(`head -c 300000 /dev/zero | tr '\0' x; echo end; echo next`)
	e.run(pod)
	require.Zero(t, e.exited(pod).ExitCode)
	files, bytes := e.logFiles(pod)
	assert.Equal(t, 2, files)
	assert.LessOrEqual(t, bytes, int64(2*size))
	lines := e.lines(pod, 0)
	require.Len(t, lines, 2)
	assert.Greater(t, len(lines[0]), 16<<10)
	assert.Equal(t, "end", strings.TrimLeft(lines[0], "x"))
	assert.Equal(t, "next", lines[1])
}

func TestFollowingALogThatIsRotated(t *testing.T) {
	e := newEnv(t)
	e.rt = e.open(process.Options{MaxLogSize: 4 << 10, MaxLogFiles: 1000})
	pod := e.pod(`for i in 1 2 3 4 5 6; do seq "${i}0001" "${i}0500"; sleep 0.05; done`)
	_, id := e.run(pod)
	var out bytes.Buffer
	_, err := logs.Read(t.Context(), logs.Request{
		Path: e.spec(pod, 0).LogPath, Stdout: &out, Options: logs.Options{Follow: true}, Poll: 10 * time.Millisecond,
		Running: logs.Running(e.rt, pod.UID, id),
	})
	require.NoError(t, err)
	var want strings.Builder
	for i := 1; i <= 6; i++ {
		for n := 1; n <= 500; n++ {
			fmt.Fprintf(&want, "%d\n", i*10000+n)
		}
	}
	assert.Equal(t, want.String(), out.String())
}

const endlessFlood = `n=0; while :; do n=$((n+1)); echo $n; done`

func TestShimKilledWhileItRotates(t *testing.T) {
	e := newEnv(t)
	e.rt = e.open(process.Options{MaxLogSize: 400, MaxLogFiles: 3}) // a rotation every few lines
	for range 8 {
		pod := e.pod(endlessFlood)
		_, id := e.run(pod)
		e.until("it has rotated", func() bool { n, _ := e.logFiles(pod); return n == 3 })
		require.NoError(t, e.process(id).Shim.Signal(syscall.SIGKILL))
		assert.Equal(t, int32(137), e.exited(pod).ExitCode)
		files, bytes := e.logFiles(pod)
		assert.LessOrEqual(t, files, 3)
		assert.GreaterOrEqual(t, files, 1)
		assert.LessOrEqual(t, bytes, int64(3*400))
		e.numbers(pod, 0)
		require.NoError(t, e.rt.RemoveContainer(t.Context(), id))
	}
}

// TestFullDiskWhileLogsAreRotated takes the space away from a shim that runs.
func TestFullDiskWhileLogsAreRotated(t *testing.T) {
	e := newEnv(t)
	e.rt = e.open(process.Options{MaxLogSize: 2000, MaxLogFiles: 3})
	pod := e.pod(`while [ ! -e go ]; do sleep 0.01; done; seq 1 60000; touch lost; while [ ! -e on ]; do sleep 0.01; done; seq 70001 73000`)
	_, id := e.run(pod)
	shim := e.process(id).Shim.PID
	var old unix.Rlimit
	require.NoError(t, unix.Prlimit(shim, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1970, Max: unix.RLIM_INFINITY}, &old))
	work := filepath.Join(e.folder(id), record.WorkDir)
	require.NoError(t, os.WriteFile(filepath.Join(work, "go"), nil, 0o600))
	// More than a pipe holds.
	e.until("the container has written everything, though it was lost", func() bool {
		_, err := os.Stat(filepath.Join(work, "lost"))
		return err == nil
	})
	require.Equal(t, runtime.StateRunning, e.status(pod).State)
	require.NoError(t, unix.Prlimit(shim, unix.RLIMIT_FSIZE, &old, nil))
	require.NoError(t, os.WriteFile(filepath.Join(work, "on"), nil, 0o600))
	require.Zero(t, e.exited(pod).ExitCode)
	assert.Equal(t, 73000, e.numbers(pod, 0))
	files, _ := e.logFiles(pod)
	assert.Equal(t, 3, files)
	raw, err := os.ReadFile(filepath.Join(e.folder(id), record.LockFile))
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(raw), "\n"), "%q", raw)
}

// TestSomebodyElseRotates: logs.Rotator does, and the shim does not.
func TestSomebodyElseRotates(t *testing.T) {
	e := newEnv(t)
	e.rt = e.open(process.Options{MaxLogSize: -1})
	pod := e.pod(`n=0; while [ $n -lt 300 ]; do n=$((n+1)); echo $n; sleep 0.001; done`)
	_, id := e.run(pod)
	rotator, err := logs.NewRotator(logs.RotatorOptions{
		Reopener: e.rt, Logs: logs.RunningLogs(e.rt), MaxSize: 500, MaxFiles: 100,
	})
	require.NoError(t, err)
	e.until("the container has ended", func() bool {
		require.NoError(t, rotator.RotateAll(t.Context()))
		return e.status(pod).State == runtime.StateExited
	})
	files, _ := e.logFiles(pod)
	assert.Greater(t, files, 3)
	lines := e.lines(pod, 0)
	require.Len(t, lines, 300)
	assert.Equal(t, 300, e.numbers(pod, 0))

	require.NoError(t, e.rt.RemoveContainer(t.Context(), id))
	require.ErrorIs(t, e.rt.ReopenLog(t.Context(), id), runtime.ErrNotFound)
}

func TestLogLimitsAreChecked(t *testing.T) {
	for _, n := range []int{-1, 1} {
		_, err := process.New(process.Options{Root: "/x", MaxLogFiles: n})
		require.ErrorContains(t, err, "Options.MaxLogFiles is")
	}
	e := newEnv(t)
	pod := e.pod("true")
	id := e.create(pod, e.sandbox(pod), 0)
	raw, err := os.ReadFile(filepath.Join(e.folder(id), record.SpecFile))
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"maxLogSize":10485760,"maxLogFiles":5`)
}
