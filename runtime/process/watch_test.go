// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// hint waits for the next hint of a watch.
func hint(t *testing.T, next func() (types.UID, error, bool)) types.UID {
	t.Helper()
	uid, err, ok := next()
	require.NoError(t, err)
	require.True(t, ok)
	return uid
}

func TestWatch(t *testing.T) {
	e := newEnv(t)
	assert.True(t, runtime.WatchesAll(e.rt))
	adopted, other := e.pod("exec sleep 1000"), e.pod("exec sleep 1000")
	_, id := e.run(adopted)
	e.run(other)
	e.rt = e.open(process.Options{}) // another agent by now

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next, stop := iter.Pull2(e.rt.Watch(ctx))
	defer stop()
	assert.ElementsMatch(t, []types.UID{adopted.UID, other.UID}, []types.UID{hint(t, next), hint(t, next)}, "first a hint for every pod")

	for uid, err := range e.rt.Watch(ctx) {
		assert.Empty(t, uid)
		require.ErrorIs(t, err, process.ErrWatching)
	}

	require.NoError(t, e.process(id).Main.Signal(9))
	assert.Equal(t, adopted.UID, hint(t, next))
	assert.Equal(t, runtime.StateExited, e.status(adopted).State, "the exit is on record when the hint comes")

	late := e.pod("exit 1") // started while it is watched
	e.run(late)
	assert.Equal(t, late.UID, hint(t, next))
	assert.Equal(t, int32(1), e.status(late).ExitCode)

	_, id = e.run(e.pod("exec sleep 1000"))
	shim := e.process(id).Shim
	require.NoError(t, shim.Signal(9))
	hint(t, next)
	assert.False(t, shim.Alive())

	cancel()
	_, err, ok := next()
	require.NoError(t, err)
	assert.False(t, ok, "it just ends")

	again, done := context.WithTimeout(t.Context(), time.Second)
	defer done()
	for _, err := range e.rt.Watch(again) {
		require.NoError(t, err, "it can be watched again")
		break
	}
}

func TestExec(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("exec sleep 1000")
	_, id := e.run(pod)

	out, errOut, code, err := e.rt.Exec(t.Context(), id, shell(`echo "$HOME"; pwd; echo oops >&2; kill -9 $$`))
	require.NoError(t, err)
	work := filepath.Join(e.folder(id), "work")
	assert.Equal(t, work+"\n"+work+"\n", string(out))
	assert.Equal(t, "oops\n", string(errOut))
	assert.Equal(t, 137, code)

	_, _, _, err = e.rt.Exec(t.Context(), id, []string{"no-such-command", "hunter2"})
	require.ErrorContains(t, err, `"no-such-command"`)
	assert.NotContains(t, err.Error(), "hunter2")
	_, _, _, err = e.rt.Exec(t.Context(), id, nil)
	require.Error(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	before := len(e.processes(id))
	_, _, _, err = e.rt.Exec(ctx, id, shell(daemon+"; sleep 1000"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Len(t, e.processes(id), before, "what escaped the command's group is killed too")
}

// TestExecLeftoversEndWithTheContainer: processes left by a command live as long as the container.
func TestExecLeftoversEndWithTheContainer(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("exec sleep 1000")
	_, id := e.run(pod)
	e.until("the program has its environment", func() bool { return len(e.processes(id)) == 1 })
	begun := time.Now()
	out, _, code, err := e.rt.Exec(t.Context(), id, shell(`setsid sleep 1000 & echo started`))
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.Equal(t, "started\n", string(out))
	assert.Less(t, time.Since(begun), 30*time.Second, "the output it holds open is not waited for")
	assert.Len(t, e.processes(id), 2)
	require.NoError(t, e.process(id).Main.Signal(9))
	e.exited(pod)
	assert.Empty(t, e.processes(id))
}

func TestExecEndsWithTheContainer(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("exec sleep 1000")
	_, id := e.run(pod)
	ended := make(chan int, 1)
	go func() {
		_, _, code, err := e.rt.Exec(t.Context(), id, shell("touch begun; sleep 1000"))
		assert.NoError(t, err)
		ended <- code
	}()
	e.until("the command runs", func() bool {
		_, err := os.Stat(filepath.Join(e.folder(id), "work", "begun"))
		return err == nil
	})
	require.NoError(t, e.rt.StopContainer(t.Context(), id, 0))
	assert.Equal(t, 137, <-ended)
	_, _, _, err := e.rt.Exec(t.Context(), id, []string{"true"})
	require.ErrorContains(t, err, "does not run")
}

// TestExecEndsWithTheShim: no process is left of a command that begins when the shim has looked for such
// processes already, as here a shim that is killed.
func TestExecEndsWithTheShim(t *testing.T) {
	e := newEnv(t)
	_, id := e.run(e.pod("exec sleep 1000"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _, _ = e.rt.Exec(t.Context(), id, shell("sleep 1000 & touch begun; wait"))
	}()
	e.until("the command runs", func() bool {
		_, err := os.Stat(filepath.Join(e.folder(id), "work", "begun"))
		return err == nil
	})
	require.NoError(t, e.process(id).Shim.Signal(syscall.SIGKILL))
	<-ended
	e.until("nothing is left, though nobody looks", func() bool { return len(e.processes(id)) == 0 })
}

// TestMainWasNotCalled runs a program without the call of Main: it gets an error, and does not
// start copies of itself.
func TestMainWasNotCalled(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), forgetfulEnv+"="+t.TempDir())
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), process.ErrNoShim.Error())
}
