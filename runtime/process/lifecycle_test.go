// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/internal/tree/treetest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process"
)

func TestRunAndExit(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`echo hello; exit 3`)
	_, id := e.run(pod)
	c := e.exited(pod)
	assert.Equal(t, id, c.ID)
	assert.Equal(t, int32(3), c.ExitCode)
	assert.Equal(t, runtime.ReasonError, c.Reason)
	assert.False(t, c.StartedAt.Before(c.CreatedAt))
	assert.False(t, c.FinishedAt.Before(c.StartedAt))
	assert.Equal(t, "hello\n", e.log(pod, 0))
}

// TestWhoeverLooksReaps: the shim is a child of this process, and no call stops or watches it.
func TestWhoeverLooksReaps(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("exit 0")
	_, id := e.run(pod)
	e.until("the shim is no zombie", func() bool {
		e.status(pod)
		_, err := proc.Lookup(e.process(id).Shim.PID)
		return errors.Is(err, os.ErrProcessDone)
	})
}

func TestExitBySignal(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`kill -SEGV $$`)
	e.run(pod)
	assert.Equal(t, int32(128+11), e.exited(pod).ExitCode)
}

func TestStopSignal(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`trap 'exit 42' USR2; trap 'exit 1' TERM; echo ready; while :; do sleep 0.02; done`)
	usr2 := v1.SIGUSR2
	pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{StopSignal: &usr2}
	_, id := e.run(pod)
	e.awaitLog(pod, "ready")
	require.NoError(t, e.rt.StopContainer(t.Context(), id, time.Minute))
	assert.Equal(t, int32(42), e.status(pod).ExitCode)
}

func TestIgnoringSIGTERMIsKilledAfterGrace(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`trap '' TERM; echo ready; while :; do sleep 0.02; done`)
	_, id := e.run(pod)
	e.awaitLog(pod, "ready")
	begun := time.Now()
	require.NoError(t, e.rt.StopContainer(t.Context(), id, 100*time.Millisecond))
	assert.GreaterOrEqual(t, time.Since(begun), 100*time.Millisecond)
	c := e.status(pod)
	assert.Equal(t, runtime.StateExited, c.State)
	assert.Equal(t, int32(137), c.ExitCode)
	assert.Empty(t, e.processes(id))
}

// TestStopOfAStoppedProcess: SIGSTOP holds SIGTERM back, but not SIGKILL.
func TestStopOfAStoppedProcess(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`kill -STOP $$`)
	_, id := e.run(pod)
	e.until("it has stopped itself", func() bool {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.process(id).Main.PID))
		return err == nil && strings.Contains(string(raw), ") T ")
	})
	require.NoError(t, e.rt.StopContainer(t.Context(), id, 20*time.Millisecond))
	assert.Equal(t, int32(137), e.status(pod).ExitCode)
}

// daemon leaves the container's process group and session, and loses its parent.
const daemon = `(setsid sh -c 'trap "" TERM HUP; echo daemon; while :; do sleep 0.05; done' </dev/null &)`

func TestEscapedDaemonIsKilledAtStop(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(daemon + `; while :; do sleep 0.02; done`)
	_, id := e.run(pod)
	e.awaitLog(pod, "daemon")
	require.NoError(t, e.rt.StopContainer(t.Context(), id, time.Minute))
	assert.Empty(t, e.processes(id), "nothing of a stopped container is left")
	assert.Equal(t, int32(128+15), e.status(pod).ExitCode)
}

func TestEscapedDaemonIsKilledAtExit(t *testing.T) {
	e := newEnv(t)
	// The second one carries no mark.
	pod := e.pod(daemon + `; (env -i setsid sh -c 'echo $$; exec sleep 1000' >unmarked &)
		while [ ! -e go ]; do sleep 0.01; done; exit 5`)
	_, id := e.run(pod)
	e.awaitLog(pod, "daemon")
	var unmarked int
	e.until("the second daemon runs", func() bool {
		raw, _ := os.ReadFile(filepath.Join(e.folder(id), "work", "unmarked"))
		unmarked, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
		return unmarked > 0
	})
	require.NoError(t, os.WriteFile(filepath.Join(e.folder(id), "work", "go"), nil, 0o600))
	c := e.exited(pod)
	assert.Equal(t, int32(5), c.ExitCode)
	assert.Empty(t, e.processes(id), "when the exit is on record nothing is left")
	_, err := proc.Lookup(unmarked)
	assert.ErrorIs(t, err, os.ErrProcessDone)
}

func TestTenMiBWithoutNewline(t *testing.T) {
	e := newEnv(t)
	const size = 10 << 20
	e.rt = e.open(process.Options{MaxLogSize: -1})
	pod := e.pod(`head -c 10485760 /dev/zero | tr '\0' x`)
	e.run(pod)
	require.Zero(t, e.exited(pod).ExitCode)
	raw, err := os.ReadFile(e.spec(pod, 0).LogPath)
	require.NoError(t, err)
	for line := range bytes.Lines(raw) {
		require.Less(t, len(line), 17<<10, "no entry is longer than 16 KiB and its head")
	}
	log := e.log(pod, 0)
	assert.Len(t, log, size+1)
	assert.Equal(t, size, strings.Count(log, "x"))
}

func TestBinaryOutput(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`printf 'a\000b\377\033[0m\r\n\200tail'`)
	e.run(pod)
	require.Zero(t, e.exited(pod).ExitCode)
	assert.Equal(t, "a\x00b\xff\x1b[0m\r\n\x80tail\n", e.log(pod, 0))
}

func TestFullLogDiskDoesNotBlockTheContainer(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`head -c 1000000 /dev/zero | tr '\0' '\n'; exit 4`)
	sandbox := e.sandbox(pod)
	spec := e.spec(pod, 0)
	spec.LogPath = "/dev/full"
	id, err := e.rt.CreateContainer(t.Context(), sandbox, spec)
	require.NoError(t, err)
	require.NoError(t, e.rt.StartContainer(t.Context(), id))
	assert.Equal(t, int32(4), e.exited(pod).ExitCode)
}

func TestUnwritableLog(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`true`)
	sandbox := e.sandbox(pod)
	dir := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))

	spec := e.spec(pod, 0)
	spec.LogPath = filepath.Join(dir, "c", "0.log")
	_, err := e.rt.CreateContainer(t.Context(), sandbox, spec)
	require.ErrorContains(t, err, "log directory")

	spec.LogPath = t.TempDir() // a folder in the place of the file
	id, err := e.rt.CreateContainer(t.Context(), sandbox, spec)
	require.NoError(t, err)
	require.ErrorContains(t, e.rt.StartContainer(t.Context(), id), "log: ")
	assert.Equal(t, runtime.StateCreated, e.status(pod).State, "a failed start leaves it created")
}

func TestStartErrorsNameTheCommandAndNoSecret(t *testing.T) {
	e := newEnv(t)
	script := filepath.Join(t.TempDir(), "no-interpreter")
	require.NoError(t, os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700))
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	for _, tt := range []struct {
		name, command, dir, want string
	}{
		{"not in PATH", "no-such-command", "", `command "no-such-command": not found in PATH`},
		{"absolute", "/no/such/file", "", `command "/no/such/file": file does not exist`},
		{"relative", "./here", "", `command "./here": file does not exist`},
		{"directory", "/tmp", "", `command "/tmp": is a directory`},
		{"not executable", plain, "", `permission denied`},
		{"interpreter", script, "", `no such file`},
		{"working directory", "true", "/no/such/dir", "working directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := e.pod("")
			c := &pod.Spec.Containers[0]
			c.Command, c.Args = []string{tt.command}, []string{"hunter2"}
			c.Env = []v1.EnvVar{{Name: "TOKEN", Value: "hunter2"}}
			c.WorkingDir = tt.dir
			id := e.create(pod, e.sandbox(pod), 0)
			err := e.rt.StartContainer(t.Context(), id)
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error(), "hunter2")
			st := e.status(pod)
			assert.Equal(t, runtime.StateExited, st.State)
			assert.Equal(t, runtime.ReasonStartError, st.Reason)
			assert.Contains(t, st.Message, tt.want)
			assert.NotContains(t, st.Message, "hunter2")
			require.ErrorContains(t, e.rt.StartContainer(t.Context(), id), "started before")
		})
	}
}

func TestCreateErrorsShowNoSecret(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("true")
	sandbox := e.sandbox(pod)
	for _, v := range []runtime.EnvVar{{Name: "A=B", Value: "hunter2"}, {Name: "TOKEN", Value: "hunter2\x00"}, {Name: "", Value: "hunter2"}} {
		spec := e.spec(pod, 0)
		spec.Env = []runtime.EnvVar{v}
		_, err := e.rt.CreateContainer(t.Context(), sandbox, spec)
		require.ErrorContains(t, err, "environment")
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestNamesStayWithinTheRoot(t *testing.T) {
	e := newEnv(t)
	outside := filepath.Join(filepath.Dir(e.root), "outside")
	for _, uid := range []string{"..", "../outside", "a/../../outside", "/etc", ".hidden", "a:b", "", strings.Repeat("x", 300), "nul\x00"} {
		pod := e.pod("true")
		pod.UID = types.UID(uid)
		_, err := e.rt.RunSandbox(t.Context(), runtime.SandboxSpec{UID: pod.UID, Pod: pod})
		require.ErrorContains(t, err, "pod UID", "%q", uid)
		st, err := e.rt.PodStatus(t.Context(), pod.UID)
		require.NoError(t, err)
		assert.Empty(t, st.Sandboxes)
	}
	pod := e.pod("true")
	sandbox := e.sandbox(pod)
	for _, name := range []string{"..", "../x", "a/b", ".x", "", "nul\x00"} {
		spec := e.spec(pod, 0)
		spec.Name = name
		_, err := e.rt.CreateContainer(t.Context(), sandbox, spec)
		require.ErrorContains(t, err, "name", "%q", name)
	}
	for _, at := range []string{"../../../escape", "/../../escape"} {
		spec := e.spec(pod, 0)
		spec.Mounts = []runtime.Mount{{Name: "v", HostPath: "/tmp", ContainerPath: at}}
		id, err := e.rt.CreateContainer(t.Context(), sandbox, spec)
		require.NoError(t, err)
		_, err = os.Lstat(filepath.Join(e.folder(id), "work", "escape"))
		require.NoError(t, err, "dots lead nowhere above the working folder")
	}
	assert.NoDirExists(t, outside)
	entries, err := os.ReadDir(filepath.Dir(e.root))
	require.NoError(t, err)
	for _, entry := range entries {
		assert.Contains(t, []string{"state", "logs"}, entry.Name())
	}
}

func TestStopBeforeStart(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("true")
	id := e.create(pod, e.sandbox(pod), 0)
	require.NoError(t, e.rt.StopContainer(t.Context(), id, time.Second))
	c := e.status(pod)
	assert.Equal(t, runtime.StateExited, c.State)
	assert.Equal(t, int32(137), c.ExitCode)
	assert.True(t, c.StartedAt.IsZero())
	require.ErrorContains(t, e.rt.StartContainer(t.Context(), id), "started before")
}

func TestNothingStartsInAStoppedSandbox(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("true")
	sandbox := e.sandbox(pod)
	id := e.create(pod, sandbox, 0)
	require.NoError(t, e.rt.StopSandbox(t.Context(), sandbox))
	require.ErrorContains(t, e.rt.StartContainer(t.Context(), id), "stopped")
	_, err := e.rt.CreateContainer(t.Context(), sandbox, e.spec(pod, 1))
	require.ErrorContains(t, err, "stopped")
	assert.Equal(t, runtime.StateCreated, e.status(pod).State)
}

func TestCancelledCallsDoNothing(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("true")
	sandbox := e.sandbox(pod)
	id := e.create(pod, sandbox, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"start":          e.rt.StartContainer(ctx, id),
		"stop":           e.rt.StopContainer(ctx, id, 0),
		"remove":         e.rt.RemoveContainer(ctx, id),
		"stop sandbox":   e.rt.StopSandbox(ctx, sandbox),
		"remove sandbox": e.rt.RemoveSandbox(ctx, sandbox),
	} {
		require.ErrorIs(t, err, context.Canceled, name)
	}
	assert.Equal(t, runtime.StateCreated, e.status(pod).State)
}

func TestRemoveOfAFolderWithoutRights(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`mkdir -p a/b; echo x > a/b/c; chmod 0 a/b a`)
	_, id := e.run(pod)
	e.exited(pod)
	require.NoError(t, e.rt.RemoveContainer(t.Context(), id))
	assert.NoDirExists(t, e.folder(id))
	assert.FileExists(t, e.spec(pod, 0).LogPath, "the log stays")
}

// A container that nests folders deeper than the longest path leaves no record that cannot be
// removed.
func TestRemoveOfADeepFolder(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`sleep 1000`)
	_, id := e.run(pod)
	treetest.Deep(t, e.folder(id), 1500)
	require.NoError(t, e.rt.StopContainer(t.Context(), id, 0))
	e.exited(pod)
	restore := treetest.Scarce(t, 2*tree.MaxDescriptors)
	defer restore()
	require.NoError(t, e.rt.RemoveContainer(t.Context(), id))
	restore()
	assert.NoDirExists(t, e.folder(id))
}
