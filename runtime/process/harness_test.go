// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// testUID is the prefix of the UIDs of all pods outside the conformance suite. It separates the
// leftovers of test runs.
var testUID = "test-" + strconv.Itoa(os.Getpid()) + "-"

// env is one backend over one state, with short ways to use it.
type env struct {
	testing.TB
	rt   *process.Runtime
	root string
	logs string
	n    int
}

func newEnv(tb testing.TB) *env {
	tb.Helper()
	dir := tb.TempDir()
	e := &env{TB: tb, root: filepath.Join(dir, "state"), logs: filepath.Join(dir, "logs")}
	e.rt = e.open(process.Options{})
	tb.Cleanup(e.removeAll)
	return e
}

// open returns another backend value over the same state.
func (e *env) open(opts process.Options) *process.Runtime {
	e.Helper()
	opts.Root = e.root
	rt, err := process.New(opts)
	require.NoError(e, err)
	return rt
}

// removeAll removes every pod, so that no process outlives its test.
func (e *env) removeAll() {
	ctx := e.background()
	pods, err := e.rt.List(ctx, runtime.ListOptions{})
	if err != nil {
		e.Errorf("list for clean-up: %v", err)
	}
	for _, p := range pods {
		for _, s := range p.Sandboxes {
			if err := e.rt.RemoveSandbox(ctx, s.ID); err != nil {
				e.Errorf("clean-up: %v", err)
			}
		}
	}
}

// pod returns a pod with one container "c" that runs a shell script.
func (e *env) pod(script string) *v1.Pod {
	e.n++
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("pod%d", e.n),
			UID: types.UID(fmt.Sprintf("%s%d-%d", testUID, time.Now().UnixNano(), e.n)),
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Command: shell(script)}}},
	}
}

func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

func (e *env) sandbox(pod *v1.Pod) runtime.SandboxID {
	e.Helper()
	id, err := e.rt.RunSandbox(e.Context(), runtime.SandboxSpec{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Pod: pod,
		HostNetwork: pod.Spec.HostNetwork, LogDirectory: filepath.Join(e.logs, string(pod.UID)),
	})
	require.NoError(e, err)
	return id
}

// spec returns the spec of the pod's first container, like a generator.
func (e *env) spec(pod *v1.Pod, restart int32) runtime.ContainerSpec {
	c := &pod.Spec.Containers[0]
	spec := runtime.ContainerSpec{
		Name: c.Name, RestartCount: restart, Hash: "hash", Image: c.Image,
		Command: c.Command, Args: c.Args, WorkingDir: c.WorkingDir,
		LogPath: filepath.Join(e.logs, string(pod.UID), c.Name, fmt.Sprintf("%d.log", restart)),
		Pod:     pod, Container: c,
	}
	for _, v := range c.Env {
		spec.Env = append(spec.Env, runtime.EnvVar{Name: v.Name, Value: v.Value})
	}
	return spec
}

func (e *env) create(pod *v1.Pod, sandbox runtime.SandboxID, restart int32) runtime.ContainerID {
	e.Helper()
	id, err := e.rt.CreateContainer(e.Context(), sandbox, e.spec(pod, restart))
	require.NoError(e, err)
	return id
}

// run makes a sandbox with the pod's container and starts it.
func (e *env) run(pod *v1.Pod) (runtime.SandboxID, runtime.ContainerID) {
	e.Helper()
	sandbox := e.sandbox(pod)
	id := e.create(pod, sandbox, 0)
	require.NoError(e, e.rt.StartContainer(e.Context(), id))
	return sandbox, id
}

// status returns the newest instance of container "c".
func (e *env) status(pod *v1.Pod) runtime.ContainerStatus {
	e.Helper()
	st, err := e.rt.PodStatus(e.background(), pod.UID)
	require.NoError(e, err)
	c := st.Latest("c")
	require.NotNil(e, c, "no record of the container: %+v", st)
	return *c
}

// exited waits until the newest instance of "c" has exited.
func (e *env) exited(pod *v1.Pod) runtime.ContainerStatus {
	e.Helper()
	var c runtime.ContainerStatus
	e.until("the container exits", func() bool {
		c = e.status(pod)
		return c.State == runtime.StateExited
	})
	return c
}

// until waits for an event outside of this process.
func (e *env) until(what string, done func() bool) {
	e.Helper()
	for end := time.Now().Add(time.Minute); !done(); {
		require.True(e, time.Now().Before(end), "waited too long until %s", what)
		time.Sleep(2 * time.Millisecond)
	}
}

// log returns the text of the log's entries, tags left out.
func (e *env) log(pod *v1.Pod, restart int32) string {
	e.Helper()
	raw, err := os.ReadFile(e.spec(pod, restart).LogPath)
	require.NoError(e, err)
	var b strings.Builder
	for line := range strings.Lines(string(raw)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		require.Len(e, fields, 4, "log line %q", line)
		b.WriteString(fields[3])
		if fields[2] == "F" {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// awaitLog waits for a line in the container's first log.
func (e *env) awaitLog(pod *v1.Pod, line string) {
	e.Helper()
	e.until("the log says "+line, func() bool {
		return strings.Contains("\n"+e.log(pod, 0), "\n"+line+"\n")
	})
}

func (e *env) background() context.Context { return context.WithoutCancel(e.Context()) }

// processes returns the processes with the mark of a container.
func (e *env) processes(id runtime.ContainerID) []proc.Info {
	e.Helper()
	all, err := proc.All()
	require.NoError(e, err)
	return slices.DeleteFunc(all, func(p proc.Info) bool {
		return p.Zombie || !proc.HasEnv(p.PID, record.IDEnv+"="+id.ID)
	})
}

// process returns pid.json of a container.
func (e *env) process(id runtime.ContainerID) record.Process {
	e.Helper()
	raw, err := os.ReadFile(filepath.Join(e.folder(id), record.ProcessFile))
	require.NoError(e, err)
	var p record.Process
	require.NoError(e, json.Unmarshal(raw, &p))
	return p
}

// folder is where the state of a container is.
func (e *env) folder(id runtime.ContainerID) string {
	part := strings.Split(id.ID, ":")
	return filepath.Join(e.root, part[0], "sandbox-"+part[1], part[2])
}

// seen returns the pod's status without the time of the observation.
func (e *env) seen(pod *v1.Pod) *runtime.PodStatus {
	e.Helper()
	st, err := e.rt.PodStatus(e.background(), pod.UID)
	require.NoError(e, err)
	st.ObservedAt = time.Time{}
	return st
}
