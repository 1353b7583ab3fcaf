// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func TestScriptPerRestart(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{Container: "web"}, fake.Exit(time.Second, 1), fake.OOM(2*time.Second), fake.Script{})
		sb := n.sandbox("u", 0)
		for restart, want := range []string{"exited 1 Error 1s", "exited 137 OOMKilled 2s", "running", "running"} {
			id := n.run(sb, "web", int32(restart))
			after(time.Hour)
			c := n.latest("u", "web")
			got := c.State.String()
			if c.State == runtime.StateExited {
				got = fmt.Sprintf("%s %d %s %v", got, c.ExitCode, c.Reason, c.FinishedAt.Sub(c.StartedAt))
				assert.True(t, c.Failed())
			}
			assert.Equal(t, want, got, "restart %d", restart)
			require.NoError(t, n.StopContainer(t.Context(), id, 0))
		}
	})
}

func TestLastScriptWins(t *testing.T) {
	inBubble(t, fake.WorldOptions{
		Behave: func(_ *v1.Pod, spec runtime.ContainerSpec) fake.Script {
			return fake.Script{Message: "by Behave for " + spec.Name}
		},
	}, func(t *testing.T, n *node) {
		sb := n.sandbox("u", 0)
		message := func(name string) string {
			id := n.run(sb, name, 0)
			require.NoError(t, n.StopContainer(t.Context(), id, 0))
			return n.latest("u", name).Message
		}
		assert.Equal(t, "by Behave for a", message("a"))
		n.Script(fake.Target{Op: "whatever"}, fake.Script{Message: "for all"})
		n.Script(fake.Target{Container: "a", Pod: "pod-u", UID: "u", Image: "image-of-a"}, fake.Script{Message: "for a"})
		assert.Equal(t, "for a", message("a"))
		assert.Equal(t, "for all", message("b"))
		n.Script(fake.Target{}, fake.Script{Message: strings.Repeat("m", 5000)})
		assert.Equal(t, strings.Repeat("m", 4096), message("a"))
		n.Script(fake.Target{})
		assert.Equal(t, "by Behave for b", message("b"))
	})
}

func TestStop(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script fake.Script
		grace  time.Duration
		took   time.Duration
		code   int32
	}{
		{"good server", fake.Script{TermCode: 143}, 30 * time.Second, 0, 143},
		{"unhurried", fake.Script{TermAfter: 10 * time.Second}, 30 * time.Second, 10 * time.Second, 0},
		{"too slow", fake.Script{TermAfter: 40 * time.Second}, 30 * time.Second, 30 * time.Second, 137},
		{"just in time", fake.Script{TermAfter: 30 * time.Second, TermCode: 3}, 30 * time.Second, 30 * time.Second, 3},
		{"deaf", fake.Script{TermAfter: fake.Never}, 30 * time.Second, 30 * time.Second, 137},
		{"deaf, but ends meanwhile", fake.Script{TermAfter: fake.Never, ExitAfter: 5 * time.Second, ExitCode: 9}, 30 * time.Second, 5 * time.Second, 9},
		{"its own exit comes first", fake.Script{TermAfter: 20 * time.Second, TermCode: 1, ExitAfter: 5 * time.Second, ExitCode: 9}, 30 * time.Second, 5 * time.Second, 9},
		{"SIGTERM comes first", fake.Script{TermAfter: time.Second, TermCode: 1, ExitAfter: 5 * time.Second, ExitCode: 9}, 30 * time.Second, time.Second, 1},
		{"no grace", fake.Script{TermCode: 143}, 0, 0, 137},
		{"negative grace", fake.Script{TermCode: 143}, -time.Second, 0, 137},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
				n.Script(fake.Target{}, tt.script)
				id := n.run(n.sandbox("u", 0), "web", 0)
				before := time.Now()
				require.NoError(t, n.StopContainer(t.Context(), id, tt.grace))
				assert.Equal(t, tt.took, time.Since(before))
				assert.Equal(t, tt.code, n.latest("u", "web").ExitCode)
			})
		})
	}
}

// A second SIGTERM changes nothing, and every stop has its own grace period.
func TestSecondStopMayBeMoreSevere(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{}, fake.Script{TermAfter: 20 * time.Second})
		id := n.run(n.sandbox("u", 0), "web", 0)
		first := make(chan error, 1)
		go func() { first <- n.StopContainer(t.Context(), id, time.Minute) }()
		after(time.Second)
		before := time.Now()
		require.NoError(t, n.StopContainer(t.Context(), id, 2*time.Second))
		assert.Equal(t, 2*time.Second, time.Since(before))
		require.NoError(t, <-first)
		assert.EqualValues(t, 137, n.latest("u", "web").ExitCode)
		assert.Equal(t, 1, n.Count(fake.Target{Op: fake.OpTerminating}))
	})
}

func TestPendingTimersDoNotKeepABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, fake.WorldOptions{})
		n.Script(fake.Target{Container: "late"}, fake.Exit(time.Hour, 0))
		sb := n.sandbox("u", 0)
		n.run(sb, "late", 0)
		n.run(sb, "endless", 0)
	}) // hangs or fails if something is left that counts
}

func TestClosedWorldStandsStill(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{}, fake.Exit(time.Minute, 0))
		sb := n.sandbox("u", 0)
		n.run(sb, "before", 0)
		n.Close()
		n.run(sb, "after", 0)
		after(time.Hour)
		assert.Equal(t, runtime.StateRunning, n.latest("u", "before").State)
		assert.Equal(t, runtime.StateRunning, n.latest("u", "after").State)
	})
}

func TestReady(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{Container: "slow"}, fake.Script{ReadyAfter: time.Minute})
		n.Script(fake.Target{Container: "sick"}, fake.Script{ReadyAfter: fake.Never})
		sb := n.sandbox("u", 0)
		slow, sick, good := n.run(sb, "slow", 0), n.run(sb, "sick", 0), n.run(sb, "good", 0)
		check := func(id runtime.ContainerID, want bool) {
			t.Helper()
			assert.Equal(t, want, n.Ready(id))
			_, _, code, err := n.Exec(t.Context(), id, []string{"probe"})
			require.NoError(t, err)
			assert.Equal(t, want, code == 0)
		}
		check(slow, false)
		check(sick, false)
		check(good, true)
		after(time.Minute)
		check(slow, true)
		after(1000 * time.Hour)
		check(sick, false)
		require.NoError(t, n.StopContainer(t.Context(), slow, 0))
		assert.False(t, n.Ready(slow))
		assert.False(t, n.Ready(runtime.ContainerID{Runtime: "fake", ID: "nobody"}))
	})
}

func TestExecDiesWithItsContainer(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{}, fake.Script{
			ExitAfter: time.Minute,
			Exec: func(ctx context.Context, spec runtime.ContainerSpec, cmd []string) fake.ExecResult {
				<-ctx.Done()
				return fake.ExecResult{Stdout: []byte(spec.Name + " " + cmd[0])}
			},
		})
		id := n.run(n.sandbox("u", 0), "web", 0)
		before := time.Now()
		out, _, code, err := n.Exec(t.Context(), id, []string{"sleep"})
		require.NoError(t, err)
		assert.Equal(t, 137, code)
		assert.Equal(t, "web sleep", string(out))
		assert.Equal(t, time.Minute, time.Since(before))
	})
}

func TestStartErr(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{}, fake.Script{StartErr: errBoom}, fake.Script{})
		sb := n.sandbox("u", 0)
		require.ErrorIs(t, n.StartContainer(t.Context(), n.create(sb, "web", 0)), errBoom)
		c := n.latest("u", "web")
		assert.Equal(t, runtime.StateExited, c.State)
		assert.EqualValues(t, runtime.ExitCodeStartError, c.ExitCode)
		assert.Equal(t, []string{runtime.ReasonStartError, errBoom.Error()}, []string{c.Reason, c.Message})
		assert.True(t, c.StartedAt.IsZero())
		n.run(sb, "web", 1)
	})
}

func TestLogsAreKeptInMemoryOrWritten(t *testing.T) {
	dir := t.TempDir()
	for _, write := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, fake.WorldOptions{WriteLogs: write})
			n.Script(fake.Target{}, fake.Script{
				Log:    []string{"hello", strings.Repeat("x", 16<<10) + "y"},
				Output: func(spec runtime.ContainerSpec) []fake.Line { return []fake.Line{{Stderr: true, Text: spec.Name}} },
			})
			spec := sandboxSpec("u", 0)
			spec.LogDirectory = filepath.Join(dir, "pod")
			sb, err := n.RunSandbox(t.Context(), spec)
			require.NoError(t, err)
			path := filepath.Join(spec.LogDirectory, "web", "0.log")
			id, err := n.CreateContainer(t.Context(), sb, runtime.ContainerSpec{Name: "web", LogPath: path})
			require.NoError(t, err)
			assert.Empty(t, n.Printed(id))
			require.NoError(t, n.StartContainer(t.Context(), id))
			assert.Equal(t, []fake.Line{{Text: "hello"}, {Text: strings.Repeat("x", 16<<10) + "y"}, {Stderr: true, Text: "web"}}, n.Printed(id))

			raw, err := os.ReadFile(path)
			if !write {
				require.ErrorIs(t, err, os.ErrNotExist)
				return
			}
			require.NoError(t, err)
			const stamp = "2000-01-01T00:00:00Z"
			assert.Equal(t, strings.Join([]string{
				stamp + " stdout F hello", stamp + " stdout P " + strings.Repeat("x", 16<<10), stamp + " stdout F y", stamp + " stderr F web", "",
			}, "\n"), string(raw))
		})
	}
}

func TestFailedStartLeavesAnEmptyLog(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, fake.WorldOptions{WriteLogs: true})
		n.Script(fake.Target{}, fake.Script{StartErr: errBoom, Log: []string{"hello"}})
		path := filepath.Join(dir, "0.log")
		id, err := n.CreateContainer(t.Context(), n.sandbox("u", 0), runtime.ContainerSpec{Name: "web", LogPath: path})
		require.NoError(t, err)
		require.ErrorIs(t, n.StartContainer(t.Context(), id), errBoom)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Empty(t, raw)
		assert.Empty(t, n.Printed(id))
	})
}

func TestLogThatCannotBeWrittenFailsTheStart(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	inBubble(t, fake.WorldOptions{WriteLogs: true}, func(t *testing.T, n *node) {
		id, err := n.CreateContainer(t.Context(), n.sandbox("u", 0), runtime.ContainerSpec{Name: "web", LogPath: filepath.Join(dir, "file", "0.log")})
		require.NoError(t, err)
		require.Error(t, n.StartContainer(t.Context(), id))
		assert.Equal(t, runtime.StateCreated, n.latest("u", "web").State)
	})
}

func TestCheck(t *testing.T) {
	refusal := &runtime.UnsupportedError{Runtime: "fake", Fields: []string{"spec.hostPID"}}
	rt, err := fake.New(fake.Options{Check: func(*v1.Pod) error { return refusal }})
	require.NoError(t, err)
	require.ErrorIs(t, rt.CheckPod(&v1.Pod{}), runtime.ErrUnsupported)
	require.NoError(t, rt.CheckPod(nil))
	_, err = rt.RunSandbox(t.Context(), runtime.SandboxSpec{Pod: &v1.Pod{}})
	assert.Equal(t, error(refusal), err)
}
