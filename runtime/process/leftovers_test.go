// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process"
)

// TestLeftovers makes each kind of leftover of a crash or fault beside objects in use, and finds
// and collects only the leftovers.
func TestLeftovers(t *testing.T) {
	e := newEnv(t)
	live := e.pod("exec sleep 1000")
	liveSandbox, liveID := e.run(live)
	lost := e.pod("exec sleep 1000")
	_, lostID := e.run(lost)
	lostMain := e.process(lostID).Main
	require.NoError(t, os.RemoveAll(filepath.Dir(filepath.Dir(e.folder(lostID)))))
	killed := e.pod("sleep 1000 & echo ready; exec sleep 1000") // and its shim with it
	_, killedID := e.run(killed)
	e.awaitLog(killed, "ready")
	p := e.process(killedID)
	require.NoError(t, os.RemoveAll(filepath.Dir(filepath.Dir(e.folder(killedID)))))
	require.NoError(t, p.Shim.Signal(unix.SIGKILL))
	e.until("the main process dies with its shim", func() bool { return !p.Main.Alive() })
	var kinds []string
	e.until("a shim and a process are found", func() bool {
		kinds = nil
		for _, l := range e.leftovers(e.rt) {
			kinds = append(kinds, string(l.Kind)+" "+l.ID)
		}
		return len(kinds) == 2
	})
	require.Equal(t, []string{"shim " + lostID.ID, "process " + killedID.ID}, kinds)

	pod, sandbox := filepath.Join(e.root, string(live.UID)), filepath.Dir(e.folder(liveID))
	want := []string{
		filepath.Join(e.root, "empty"), filepath.Join(e.root, "half", ".gone-11111111"), filepath.Join(e.root, "half"),
		filepath.Join(pod, ".gone-22222222"), filepath.Join(pod, ".new-33333333"), filepath.Join(sandbox, ".new-44444444"),
		filepath.Join(sandbox, ".gone-55555555"),
	}
	for _, path := range want {
		require.NoError(t, os.MkdirAll(path, 0o700))
		if strings.HasPrefix(filepath.Base(path), ".") {
			require.NoError(t, os.MkdirAll(filepath.Join(path, "a", "b"), 0o700))
			require.NoError(t, os.Chmod(filepath.Join(path, "a"), 0))
		}
	}
	made := filepath.Join(pod, ".new-66666666") // by a call that is under way
	require.NoError(t, os.Mkdir(made, 0o700))
	lock, err := os.Open(made)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))

	for range 2 { // it changes nothing
		var paths []string
		for _, l := range e.leftovers(e.rt) {
			if l.Kind == runtime.LeftoverFolder {
				paths = append(paths, l.Path)
			}
		}
		require.ElementsMatch(t, want, paths)
	}
	require.NoError(t, runtime.CollectLeftovers(t.Context(), e.rt))
	assert.Empty(t, e.leftovers(e.rt))
	assert.DirExists(t, made)
	require.NoError(t, lock.Close())
	require.NoError(t, runtime.CollectLeftovers(t.Context(), e.rt))
	assert.NoDirExists(t, made)
	assert.False(t, lostMain.Alive())
	assert.Empty(t, append(e.processes(lostID), e.processes(killedID)...))
	assert.Equal(t, runtime.StateRunning, e.status(live).State)

	require.NoError(t, os.Mkdir(want[3], 0o700))
	for uid, err := range e.rt.Watch(t.Context()) {
		require.NoError(t, err)
		assert.Equal(t, live.UID, uid)
		assert.NoDirExists(t, want[3], "an agent that starts collects what its predecessor left")
		break
	}
	require.NoError(t, e.rt.RemoveSandbox(t.Context(), liveSandbox))
}

// leftovers returns the leftovers of the backend. The machine may have processes of other backends.
func (e *env) leftovers(rt *process.Runtime) []runtime.Leftover {
	e.Helper()
	left, err := rt.Leftovers(e.Context())
	require.NoError(e, err)
	return slices.DeleteFunc(left, func(l runtime.Leftover) bool { return !l.Ours })
}

// TestLeftoversOfOthersStay: objects that only resemble the backend's are reported and not removed.
func TestLeftoversOfOthersStay(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, os.MkdirAll(e.root, 0o700))
	c := exec.Command("sleep", "1000")
	c.Env = []string{"KEELSON_CONTAINER_ID=" + testUID + "other:0-00000000:c-0-00000000"}
	require.NoError(t, c.Start())
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	e.until("it has its environment", func() bool { return proc.HasEnv(c.Process.Pid, c.Env[0]) })
	found := 0
	left, err := e.rt.Leftovers(t.Context())
	require.NoError(t, err)
	for _, l := range left {
		if l.PID == c.Process.Pid {
			found++
			assert.False(t, l.Ours, "%+v", l)
			require.Error(t, e.rt.Collect(t.Context(), l))
		}
	}
	assert.Equal(t, 1, found)
	require.NoError(t, runtime.CollectLeftovers(t.Context(), e.rt))
	info, err := proc.Lookup(c.Process.Pid)
	require.NoError(t, err)
	assert.True(t, info.Alive())
	require.Error(t, e.rt.Collect(t.Context(), runtime.Leftover{Kind: runtime.LeftoverFolder, Path: "/etc", Ours: true}))
	whole := filepath.Join(e.root, "u", "sandbox-0-00000000")
	require.NoError(t, os.MkdirAll(whole, 0o700))
	require.Error(t, e.rt.Collect(t.Context(), runtime.Leftover{Kind: runtime.LeftoverFolder, Path: whole, Ours: true}))
}

// churnEnv makes the test binary an agent that continuously makes and removes pods in the named
// state folder.
const churnEnv = "PROCESS_TEST_CHURN"

func churn() {
	root := os.Getenv(churnEnv)
	if root == "" {
		return
	}
	rt, err := process.New(process.Options{Root: root})
	ctx := context.Background()
	for i := 0; err == nil; i++ {
		uid := types.UID(fmt.Sprintf("%schurn-%d-%d", os.Getenv("PROCESS_TEST_UID"), os.Getpid(), i))
		var sandbox runtime.SandboxID
		var id runtime.ContainerID
		if sandbox, err = rt.RunSandbox(ctx, runtime.SandboxSpec{UID: uid, Name: "p"}); err != nil {
			break
		}
		for n := range 2 {
			id, err = rt.CreateContainer(ctx, sandbox, runtime.ContainerSpec{Name: fmt.Sprintf("c%d", n), Command: shell("mkdir -p a/b c d e; touch a/b/1 c/2; sleep 1000 & exec sleep 1000")})
			if err == nil {
				err = rt.StartContainer(ctx, id)
			}
		}
		if err == nil && i%2 == 0 {
			err = rt.RemoveContainer(ctx, id)
		}
		if err == nil {
			err = rt.RemoveSandbox(ctx, sandbox)
		}
	}
	fmt.Fprintln(os.Stderr, "churn:", err)
	os.Exit(1)
}

// TestNothingIsLeftOfAKilledAgent repeatedly kills an agent that makes and removes pods, at random
// instants. The next agent removes the pods that it finds. PROCESS_TEST_KILLS is the number of
// kills, 30 by default.
func TestNothingIsLeftOfAKilledAgent(t *testing.T) {
	kills := 30
	if n, err := strconv.Atoi(os.Getenv("PROCESS_TEST_KILLS")); err == nil {
		kills = n
	}
	e := newEnv(t)
	self, err := os.Executable()
	require.NoError(t, err)
	swept := map[string]int{}
	for round := range kills {
		agent := exec.Command(self)
		agent.Env = append(os.Environ(), churnEnv+"="+e.root, "PROCESS_TEST_UID="+testUID)
		var stderr strings.Builder
		agent.Stderr = &stderr
		require.NoError(t, agent.Start())
		time.Sleep(startup() + time.Duration(rand.IntN(60_000))*time.Microsecond)
		require.NoError(t, agent.Process.Kill())
		_ = agent.Wait()
		require.Empty(t, stderr.String())

		successor := e.open(process.Options{})
		for _, l := range e.leftovers(successor) {
			kind, _, _ := strings.Cut(filepath.Base(l.Path), "-")
			swept[string(l.Kind)+" "+kind[:min(len(kind), 5)]]++
		}
		require.NoError(t, runtime.CollectLeftovers(t.Context(), successor))
		pods, err := successor.List(t.Context(), runtime.ListOptions{})
		require.NoError(t, err)
		for _, pod := range pods {
			for _, s := range pod.Sandboxes {
				require.NoError(t, successor.RemoveSandbox(t.Context(), s.ID))
			}
		}
		e.nothingLeft(round)
	}
	t.Logf("%d kills; collected: %v", kills, swept)
}

// nothingLeft checks from outside that the state folder is empty and nothing runs.
func (e *env) nothingLeft(round int) {
	e.Helper()
	var paths []string
	_ = filepath.WalkDir(e.root, func(path string, _ fs.DirEntry, err error) error {
		if path != e.root && err == nil {
			paths = append(paths, path)
		}
		return nil
	})
	require.Empty(e, paths, "round %d", round)
	require.Empty(e, leftovers(), "round %d", round)
}
