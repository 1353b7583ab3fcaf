// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

func TestKilledShim(t *testing.T) {
	e := newEnv(t)
	// A child in the group, a child outside the group, and a child without a mark.
	pod := e.pod(daemon + `; sleep 1000 & env -i sleep 1000 & echo ready; wait`)
	_, id := e.run(pod)
	e.awaitLog(pod, "daemon")
	e.awaitLog(pod, "ready")
	p := e.process(id)
	require.NoError(t, p.Shim.Signal(syscall.SIGKILL))
	e.until("the main process is gone, though nobody looks", func() bool { return !p.Main.Alive() })

	c := e.exited(pod)
	assert.Equal(t, int32(137), c.ExitCode)
	assert.Equal(t, runtime.ReasonError, c.Reason)
	assert.Contains(t, c.Message, "shim")
	assert.False(t, c.FinishedAt.Before(c.StartedAt))
	assert.Empty(t, e.processes(id), "what the shim watched over goes with it")
	all, err := proc.All()
	require.NoError(t, err)
	for _, q := range all {
		assert.False(t, q.SID == p.Main.PID && !q.Zombie, "%+v is left of the session", q)
	}
	assert.Equal(t, c, e.status(pod), "the conclusion stays the same")
	require.NoError(t, e.rt.StopContainer(t.Context(), id, time.Minute))
}

// TestReusedPID: the recorded PIDs belong to other processes.
func TestReusedPID(t *testing.T) {
	e := newEnv(t)
	other := exec.Command("sleep", "1000")
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, other.Start())
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	now, err := proc.Lookup(other.Process.Pid)
	require.NoError(t, err)
	boot, err := proc.BootID()
	require.NoError(t, err)

	pod := e.pod("true")
	id := e.create(pod, e.sandbox(pod), 0)
	old := proc.Ref{PID: now.PID, Start: now.Start - 1}
	e.write(id, record.ProcessFile, record.Process{BootID: boot, Shim: old, Main: old, StartedAt: time.Now()})

	c := e.status(pod)
	assert.Equal(t, runtime.StateExited, c.State)
	assert.Equal(t, int32(137), c.ExitCode)
	require.NoError(t, e.rt.StopContainer(t.Context(), id, 0))
	require.NoError(t, e.rt.RemoveContainer(t.Context(), id))
	assert.True(t, now.Ref.Alive(), "the process that has the PID now is left alone")
}

// TestEarlierBoot: the records are of an earlier boot, the PIDs are in use.
func TestEarlierBoot(t *testing.T) {
	e := newEnv(t)
	me, err := proc.Lookup(os.Getpid())
	require.NoError(t, err)
	pod := e.pod("true")
	id := e.create(pod, e.sandbox(pod), 0)
	e.write(id, record.ProcessFile, record.Process{BootID: "earlier", Shim: me.Ref, Main: me.Ref, StartedAt: time.Now()})
	c := e.status(pod)
	assert.Equal(t, runtime.StateExited, c.State)
	assert.Equal(t, int32(137), c.ExitCode)
	assert.Contains(t, c.Message, "machine was restarted")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, e.rt.RemoveContainer(ctx, id), "nobody waits for a process of this boot")
}

// write puts a record in a container's folder.
func (e *env) write(id runtime.ContainerID, name string, v any) {
	e.Helper()
	raw, err := json.Marshal(v)
	require.NoError(e, err)
	require.NoError(e, os.WriteFile(filepath.Join(e.folder(id), name), raw, 0o600))
}

// TestBrokenRecords breaks each record of a running container, an exited and a
// created one in several ways: nothing crashes, no other pod is hidden, nothing
// is started twice, and everything can be removed.
func TestBrokenRecords(t *testing.T) {
	harm := map[string]func(path string) error{
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"torn":    func(path string) error { return os.Truncate(path, 10) },
		"garbage": func(path string) error { return os.WriteFile(path, []byte("\x00\xff{]"), 0o600) },
		"other": func(path string) error {
			return os.WriteFile(path, []byte(`{"id":3,"main":"x","code":"y","bootID":[]}`), 0o600)
		},
		"folder":  func(path string) error { return firstOf(os.Remove(path), os.Mkdir(path, 0o700)) },
		"fifo":    func(path string) error { return firstOf(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"missing": os.Remove,
	}
	all := slices.Sorted(maps.Keys(harm))
	some := []string{"folder", "missing", "torn"}
	for _, tt := range []struct {
		name, script, file string
		harm               []string
	}{
		{"spec of a running one", "exec sleep 1000", record.SpecFile, some},
		{"process of a running one", "exec sleep 1000", record.ProcessFile, all},
		{"lock of a running one", "exec sleep 1000", record.LockFile, some},
		{"sandbox of a running one", "exec sleep 1000", "../" + record.SandboxFile, some},
		{"spec of an exited one", "exit 3", record.SpecFile, some},
		{"process of an exited one", "exit 3", record.ProcessFile, some},
		{"exit of an exited one", "exit 3", record.ExitFile, all},
		{"sandbox of an exited one", "exit 3", "../" + record.SandboxFile, some},
	} {
		for _, how := range tt.harm {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				breakRecord(t, tt.script, tt.file, harm[how])
			})
		}
	}
}

func breakRecord(t *testing.T, script, file string, do func(string) error) {
	e := newEnv(t)
	healthy := e.pod("sleep 1000")
	e.run(healthy)
	pod := e.pod(script)
	sandbox, id := e.run(pod)
	if strings.HasPrefix(script, "exit") {
		e.exited(pod)
		e.until("its shim is gone, too", func() bool { return !e.process(id).Shim.Alive() })
		e.exited(pod) // writes exit.json, if the shim has ended asleep
	}
	require.NoError(t, e.rt.StopContainer(t.Context(), e.create(e.pod("true"), sandbox, 9), 0))
	main := e.process(id).Main
	require.NoError(t, do(filepath.Join(e.folder(id), file)))

	core, logs := observer.New(zap.WarnLevel)
	e.rt = e.open(process.Options{Logger: zap.New(core)})
	for range 2 {
		pods, err := e.rt.List(t.Context(), runtime.ListOptions{})
		require.NoError(t, err)
		require.Len(t, pods, 2, "both pods are listed")
		assert.Equal(t, runtime.StateRunning, e.status(healthy).State)
		st, err := e.rt.PodStatus(t.Context(), pod.UID)
		require.NoError(t, err)
		require.Len(t, st.Sandboxes, 1)
		for _, c := range st.Containers {
			if c.ID == id {
				assert.NotEqual(t, runtime.StateCreated, c.State, "it must never be started again")
				assert.Equal(t, main.Alive(), c.State == runtime.StateRunning || c.State == runtime.StateUnknown, "%+v", c)
			}
		}
		require.Error(t, e.rt.StartContainer(t.Context(), id))
	}
	seen := map[string]int{}
	for _, entry := range logs.All() {
		seen[entry.ContextMap()["path"].(string)]++
	}
	for path, n := range seen {
		assert.Equal(t, 1, n, "%s is logged once", path)
	}
	require.NoError(t, e.rt.StopSandbox(t.Context(), sandbox))
	assert.False(t, main.Alive())
	assert.Empty(t, e.processes(id))
	require.NoError(t, e.rt.RemoveSandbox(t.Context(), sandbox))
	assert.NoDirExists(t, filepath.Dir(e.folder(id)))
}
