// SPDX-License-Identifier: Apache-2.0

//go:build amd64

package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// asleep waits until the shim of a container dozes.
func (e *env) asleep(id runtime.ContainerID) {
	e.Helper()
	shim := e.process(id).Shim
	e.until("the shim dozes", func() bool {
		program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", shim.PID))
		if err != nil || !strings.Contains(program, "memfd:") {
			return false
		}
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", shim.PID))
		return err == nil && string(name) == record.ShimName+"\n"
	})
	require.Equal(e, shim, e.process(id).Shim)
	require.True(e, shim.Alive(), "the process is the same")
}

// TestShimDozes: a shim without work dozes, and notices output, the end of the container and requests
// of an agent that is younger than the nap.
func TestShimDozes(t *testing.T) {
	for name, opts := range map[string]process.Options{"open": {}, "confined": {Confine: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.rt = e.open(opts)
			pod := e.pod(`trap 'echo stopping; printf torn >&2; exit 5' TERM
				printf 'begin '; while [ ! -e go ]; do sleep 0.1; done; echo end; exec >&-; while :; do sleep 0.1; done`)
			pod.Spec.Containers[0].TerminationMessagePolicy = "FallbackToLogsOnError"
			_, id := e.run(pod)
			before := e.process(id)
			e.asleep(id)
			assert.LessOrEqual(t, ownPrivateMemory(t, before.Shim.PID), 64*os.Getpagesize()/4096, "KiB")

			// The half of a line is from before the nap. Then the nap continues, with one stream.
			require.NoError(t, os.WriteFile(filepath.Join(e.folder(id), "work", "go"), nil, 0o600))
			e.awaitLog(pod, "begin end")
			e.asleep(id)
			e.rt = e.open(opts)
			assert.Equal(t, runtime.StateRunning, e.status(pod).State)
			out, _, code, err := e.rt.Exec(t.Context(), id, shell("echo inside"))
			require.NoError(t, err)
			assert.Zero(t, code)
			assert.Equal(t, "inside\n", string(out))
			require.Error(t, e.rt.StartContainer(t.Context(), id), "the lock is held in the nap")

			require.NoError(t, e.rt.StopContainer(t.Context(), id, time.Minute))
			c := e.status(pod)
			assert.Equal(t, int32(5), c.ExitCode)
			assert.Contains(t, c.Message, "torn")
			assert.Equal(t, before.StartedAt, c.StartedAt)
			assert.False(t, before.Shim.Alive())
			assert.Contains(t, e.log(pod, 0), "torn\n")
			raw, err := os.ReadFile(filepath.Join(e.folder(id), record.LockFile))
			require.NoError(t, err)
			assert.Empty(t, string(raw))
		})
	}
}

// TestExitDuringANap: the end of the main process, by itself and by a signal, wakes the shim, which
// ends the processes that are left.
func TestExitDuringANap(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(daemon + `; echo ready; while [ ! -e go ]; do sleep 0.1; done; exit 7`)
	_, id := e.run(pod)
	e.awaitLog(pod, "ready")
	e.asleep(id)
	require.NoError(t, os.WriteFile(filepath.Join(e.folder(id), "work", "go"), nil, 0o600))
	assert.Equal(t, int32(7), e.exited(pod).ExitCode)
	assert.Empty(t, e.processes(id))

	killed := e.pod("exec sleep 1000")
	_, id = e.run(killed)
	e.asleep(id)
	require.NoError(t, e.process(id).Main.Signal(syscall.SIGSEGV))
	assert.Equal(t, int32(128+11), e.exited(killed).ExitCode)
}

// TestSignalsDuringANap: signals of a shutdown neither end nor wake a shim that dozes.
func TestSignalsDuringANap(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("echo ready; exec sleep 1000")
	_, id := e.run(pod)
	p := e.process(id)
	e.asleep(id)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGALRM, syscall.SIGWINCH} {
		require.NoError(t, syscall.Kill(p.Shim.PID, sig))
	}
	require.NoError(t, p.Main.Signal(syscall.SIGTERM))
	assert.Equal(t, int32(128+15), e.exited(pod).ExitCode)
}

// TestKilledDuringANap: the kernel kills the container of a shim that is killed while it dozes, and
// also after it has dozed.
func TestKilledDuringANap(t *testing.T) {
	for _, woken := range []bool{false, true} {
		e := newEnv(t)
		pod := e.pod("while [ ! -e go ]; do sleep 0.1; done; echo woken; exec sleep 1000")
		_, id := e.run(pod)
		p := e.process(id)
		e.asleep(id)
		if woken {
			require.NoError(t, os.WriteFile(filepath.Join(e.folder(id), "work", "go"), nil, 0o600))
			e.awaitLog(pod, "woken")
		}
		require.NoError(t, p.Shim.Signal(syscall.SIGKILL))
		e.until("the main process is gone", func() bool { return !p.Main.Alive() })
		assert.Equal(t, int32(137), e.exited(pod).ExitCode)
		_, err := proc.Lookup(p.Shim.PID)
		assert.ErrorIs(t, err, os.ErrProcessDone, "it is reaped")
	}
}

// TestLogRotatedDuringANap: a shim that wakes up writes to the file that is at the log's path.
func TestLogRotatedDuringANap(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("echo 1; while [ ! -e go ]; do sleep 0.1; done; echo 2; exec sleep 1000")
	_, id := e.run(pod)
	e.awaitLog(pod, "1")
	e.asleep(id)
	path := e.spec(pod, 0).LogPath
	require.NoError(t, os.Rename(path, path+".20260101-000000"))
	require.NoError(t, os.WriteFile(filepath.Join(e.folder(id), "work", "go"), nil, 0o600))
	e.until("the log is made anew", func() bool { _, err := os.Stat(path); return err == nil })
	e.awaitLog(pod, "2")
	assert.Equal(t, "2\n", e.log(pod, 0))
}
