// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// agentEnv makes the test binary an agent over the state folder it names.
const agentEnv = "PROCESS_TEST_AGENT"

// agentPlan is the plan of the agent that gets killed.
type agentPlan struct {
	Root, Logs string
	Services   []types.UID // one instance, for ever
	Jobs       []types.UID // one after the other, each exits with code 7
}

// ranScript counts how often this instance was started.
const ranScript = `echo x >> "$KEELSON_ROOT/ran"; `

// miniAgent runs the agent and never returns, if this process was started as the agent. The agent
// repeats two steps: it looks, and makes missing objects.
func miniAgent() {
	raw := os.Getenv(agentEnv)
	if raw == "" {
		return
	}
	var plan agentPlan
	err := json.Unmarshal([]byte(raw), &plan)
	var rt *process.Runtime
	if err == nil {
		rt, err = process.New(process.Options{Root: plan.Root})
		fmt.Println("begun")
	}
	for err == nil {
		for _, uid := range plan.Services {
			err = firstOf(err, plan.keep(rt, uid, ranScript+"while :; do sleep 10; done"))
		}
		for _, uid := range plan.Jobs {
			err = firstOf(err, plan.keep(rt, uid, ranScript+"exit 7"))
		}
	}
	fmt.Fprintln(os.Stderr, "mini agent:", err)
	os.Exit(1)
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// keep makes the pod's next instance if none runs.
func (p agentPlan) keep(rt *process.Runtime, uid types.UID, script string) error {
	ctx := context.Background()
	st, err := rt.PodStatus(ctx, uid)
	if err != nil || len(st.Running()) > 0 {
		return err
	}
	logs := filepath.Join(p.Logs, string(uid))
	sandbox := runtime.SandboxID("")
	if cur := st.Current(); cur != nil {
		sandbox = cur.ID
	} else if sandbox, err = rt.RunSandbox(ctx, runtime.SandboxSpec{UID: uid, Name: string(uid), LogDirectory: logs}); err != nil {
		return err
	}
	restart := int32(0)
	if last := st.Latest("c"); last != nil {
		restart = last.RestartCount + 1
	}
	id, err := rt.CreateContainer(ctx, sandbox, runtime.ContainerSpec{
		Name: "c", RestartCount: restart, Command: shell(script), LogPath: filepath.Join(logs, fmt.Sprintf("%d.log", restart)),
	})
	if err != nil {
		return err
	}
	return rt.StartContainer(ctx, id)
}

func TestAgentKilledAtRandomMoments(t *testing.T) {
	e := newEnv(t)
	plan := agentPlan{Root: e.root, Logs: e.logs}
	for i := range 3 {
		plan.Services = append(plan.Services, types.UID(fmt.Sprintf("%sservice-%d", testUID, i)))
		plan.Jobs = append(plan.Jobs, types.UID(fmt.Sprintf("%sjob-%d", testUID, i)))
	}
	pids := map[types.UID]proc.Ref{}
	// On a busy machine, an agent is killed before it gets anywhere.
	jobs := 0
	progress := time.Now()
	for round := 0; round < 15 || len(pids) < len(plan.Services) || jobs == 0; round++ {
		require.Less(t, time.Since(progress), time.Minute, "no agent gets anywhere")
		runAndKill(t, plan, time.Duration(1+rand.IntN(120))*time.Millisecond)
		for _, uid := range plan.Services {
			e.checkService(uid, pids, round)
		}
		if round < 14 {
			progress = time.Now()
			continue
		}
		jobs = 0
		for _, uid := range plan.Jobs {
			jobs += e.checkJobs(uid)
		}
	}
	t.Logf("%d jobs ended", jobs)
}

// runAndKill runs an agent, and kills it a while after its beginning.
func runAndKill(t *testing.T, plan agentPlan, after time.Duration) {
	t.Helper()
	raw, err := json.Marshal(plan)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	agent := exec.Command(self)
	agent.Env = append(os.Environ(), agentEnv+"="+string(raw))
	var stderr strings.Builder
	agent.Stderr = &stderr
	begun, err := agent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, agent.Start())
	_, _ = begun.Read(make([]byte, 1)) // an agent that fails says so on stderr
	time.Sleep(after)
	require.NoError(t, agent.Process.Kill())
	_ = agent.Wait()
	require.Empty(t, stderr.String())
}

// startup is about how long a test binary takes until it does something.
func startup() time.Duration {
	if raceEnabled {
		return 60 * time.Millisecond
	}
	return 10 * time.Millisecond
}

// checkService checks that a started service continues as the same process, and runs once.
func (e *env) checkService(uid types.UID, pids map[types.UID]proc.Ref, round int) {
	e.Helper()
	st, err := e.rt.PodStatus(e.Context(), uid)
	require.NoError(e, err)
	running := st.Running()
	require.LessOrEqual(e, len(running), 1, "round %d: %+v", round, st.Containers)
	for _, c := range st.Containers {
		require.NotEqual(e, runtime.StateExited, c.State, "round %d: nobody ended it: %+v", round, c)
		e.checkRanOnce(c)
	}
	if len(running) == 0 {
		require.NotContains(e, pids, uid, "round %d: it ran, and does not any more", round)
		return
	}
	require.Equal(e, runtime.StateRunning, running[0].State)
	p := e.process(running[0].ID)
	require.True(e, p.Main.Alive())
	if was, ok := pids[uid]; ok {
		require.Equal(e, was, p.Main, "round %d: the process goes on", round)
	}
	pids[uid] = p.Main
	mains := 0
	for _, q := range e.processes(running[0].ID) {
		if q.SID == q.PID {
			mains++
		}
	}
	require.Equal(e, 1, mains, "round %d", round)
}

// checkJobs checks that every started job ended once, with its own exit code, and returns their
// number.
func (e *env) checkJobs(uid types.UID) int {
	e.Helper()
	ended := 0
	e.until("the jobs have ended", func() bool {
		st, err := e.rt.PodStatus(e.Context(), uid)
		require.NoError(e, err)
		return len(st.Running()) == 0
	})
	st, err := e.rt.PodStatus(e.Context(), uid)
	require.NoError(e, err)
	for _, c := range st.Containers {
		e.checkRanOnce(c)
		if c.State == runtime.StateExited {
			ended++
			require.Equal(e, int32(7), c.ExitCode, "%+v", c)
		} else {
			require.Equal(e, runtime.StateCreated, c.State)
		}
	}
	return ended
}

func (e *env) checkRanOnce(c runtime.ContainerStatus) {
	e.Helper()
	raw, err := os.ReadFile(filepath.Join(e.folder(c.ID), record.WorkDir, "ran"))
	switch c.State {
	case runtime.StateCreated:
		require.ErrorIs(e, err, os.ErrNotExist, "created, but it ran: %+v", c)
	case runtime.StateExited:
		require.Equal(e, "x\n", string(raw), "%+v", c)
	default:
		require.LessOrEqual(e, len(raw), 2, "%+v", c)
	}
}

// TestNothingIsInherited: neither descriptors nor variables of the agent, nor
// the lock.
func TestNothingIsInherited(t *testing.T) {
	e := newEnv(t)
	t.Setenv("AGENT_SECRET", "hunter2")
	// Descriptors that are not close-on-exec, as the agent may have inherited.
	var fds [2]int
	require.NoError(t, syscall.Pipe(fds[:]))
	defer func() { _, _ = syscall.Close(fds[0]), syscall.Close(fds[1]) }()
	pipe, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fds[0]))
	require.NoError(t, err)
	pod := e.pod(`fds() { ls -l /proc/$1/fd | sed -n 's/.* -> //p'; echo; }
		fds self; fds $PPID; env; echo; tr '\0' '\n' < /proc/$PPID/environ`)
	_, id := e.run(pod)
	require.Zero(t, e.exited(pod).ExitCode)
	part := strings.SplitN(e.log(pod, 0), "\n\n", 4)
	require.Len(t, part, 4)
	own, shims, variables, shimsVariables := part[0], part[1], part[2]+"\n", part[3]

	for fd := range strings.Lines(own) {
		fd = strings.TrimSpace(fd)
		assert.True(t, fd == "/dev/null" || strings.HasPrefix(fd, "pipe:") || strings.HasPrefix(fd, "/proc/"), fd)
	}
	assert.NotContains(t, own, pipe)
	assert.NotContains(t, shims, pipe)
	assert.Contains(t, shims, "/"+record.LockFile)

	assert.NotContains(t, variables, "hunter2")
	assert.NotContains(t, variables, record.ShimEnv+"=")
	assert.Contains(t, variables, "PATH="+os.Getenv("PATH")+"\n")
	assert.Contains(t, variables, "HOME="+filepath.Join(e.folder(id), "work")+"\n")
	assert.NotContains(t, shimsVariables, "hunter2")
	assert.Contains(t, shimsVariables, record.ShimEnv+"=1")
}
