// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func TestKill(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{}, fake.Script{Message: "out of luck"})
		sb := n.sandbox("u", 0)
		n.run(sb, "web", 0)
		n.run(sb, "db", 0)
		require.ErrorIs(t, n.Kill("u", "cache", 1), runtime.ErrNotFound)
		require.ErrorIs(t, n.Kill("v", "web", 1), runtime.ErrNotFound)
		after(time.Minute)
		require.NoError(t, n.Kill("u", "web", 3))
		c := n.latest("u", "web")
		assert.Equal(t, runtime.StateExited, c.State)
		assert.EqualValues(t, 3, c.ExitCode)
		assert.Equal(t, runtime.ReasonError, c.Reason)
		assert.Equal(t, "out of luck", c.Message)
		assert.Equal(t, time.Minute, c.FinishedAt.Sub(c.StartedAt))
		assert.Equal(t, runtime.StateRunning, n.latest("u", "db").State)
		require.ErrorIs(t, n.Kill("u", "web", 1), runtime.ErrNotFound, "none runs any more")
	})
}

func TestReplace(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{}, fake.Exit(time.Minute, 0))
		sb := n.sandbox("u", 0)
		old := n.run(sb, "web", 4)
		after(30 * time.Second)
		id, err := n.Replace("u", "web")
		require.NoError(t, err)
		assert.NotEqual(t, old, id)
		st := n.status("u")
		require.Len(t, st.Containers, 2)
		assert.Equal(t, id, st.Active("web").ID)
		assert.Equal(t, runtime.StateRunning, st.Active("web").State)
		assert.EqualValues(t, 5, st.Active("web").RestartCount)
		assert.EqualValues(t, 137, st.Containers[1].ExitCode)
		require.NoError(t, n.NoOverlap())
		after(time.Minute)
		assert.Equal(t, runtime.StateExited, n.latest("u", "web").State, "the new one follows the script from its own start")
		_, err = n.Replace("u", "web")
		require.ErrorIs(t, err, runtime.ErrNotFound)
	})
}

func TestLoseTrack(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		id := n.run(n.sandbox("u", 0), "web", 0)
		require.NoError(t, n.LoseTrack("u", "web"))
		assert.Equal(t, runtime.StateUnknown, n.latest("u", "web").State)
		assert.Len(t, n.listed(runtime.ListOptions{RunningOnly: true})["u"].Containers, 1, "it may be running")
		require.ErrorIs(t, n.LoseTrack("u", "db"), runtime.ErrNotFound)
		require.NoError(t, n.StopContainer(t.Context(), id, time.Second))
		assert.Equal(t, runtime.StateExited, n.latest("u", "web").State)
	})
}

// Removing an unread record loses the exit code: kubernetes/kubernetes#104107.
func TestUpstream104107LoseRecordsTakesTheExitCode(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{Container: "job"}, fake.Exit(fake.AtOnce, 0))
		sb := n.sandbox("u", 0)
		job := n.run(sb, "job", 0)
		n.run(sb, "web", 0)
		after(time.Second)
		require.NoError(t, n.LoseRecords("u", "job"))
		assert.Nil(t, n.status("u").Latest("job"))
		require.ErrorIs(t, n.RemoveContainer(t.Context(), job), runtime.ErrNotFound)
		assert.Equal(t, runtime.StateRunning, n.latest("u", "web").State)
		require.ErrorIs(t, n.LoseRecords("u", "job"), runtime.ErrNotFound)
		require.ErrorIs(t, n.LoseRecords("v", "job"), runtime.ErrNotFound)
		// A running container dies with its record, so that no unknown container runs.
		require.NoError(t, n.LoseRecords("u", "web"))
		assert.Equal(t, 1, n.Count(fake.Target{Op: fake.OpExited, Container: "web"}))
		n.run(sb, "web", 0)
		require.NoError(t, n.NoOverlap())
	})
}

func TestSandboxLosesIP(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.sandbox("u", 0)
		assert.Equal(t, []string{"10.88.0.1"}, n.status("u").Current().IPs)
		require.NoError(t, n.SandboxLosesIP("u"))
		cur := n.status("u").Current()
		assert.True(t, cur.Ready && cur.NetworkKnown)
		assert.Empty(t, cur.IPs)
		require.ErrorIs(t, n.SandboxLosesIP("v"), runtime.ErrNotFound)
	})
}

// After a reboot the records of the old sandbox are still there, and count for
// whoever looks at all records: kubernetes/kubernetes#137710.
func TestUpstream137710RebootKeepsRecordsOfTheOldSandbox(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{Container: "init"}, fake.Exit(fake.AtOnce, 0))
		sb := n.sandbox("u", 0)
		n.run(sb, "init", 0)
		after(time.Second)
		n.run(sb, "web", 0)
		n.create(sb, "made", 0)
		n.Reboot()

		st := n.status("u")
		assert.Nil(t, st.Current())
		assert.Equal(t, runtime.StateExited, st.Latest("web").State)
		assert.EqualValues(t, 255, st.Latest("web").ExitCode)
		assert.Equal(t, runtime.StateCreated, st.Latest("made").State)
		assert.EqualValues(t, 0, st.Latest("init").ExitCode)
		second := n.sandbox("u", 1)
		n.run(second, "init", 0)
		st = n.status("u")
		assert.NotNil(t, st.Active("init"))
		assert.Nil(t, st.Active("web"), "the old instance is no longer active")
		require.Error(t, n.StartContainer(t.Context(), st.Latest("made").ID), "its sandbox is not ready")
	})
}

// A pod is deleted while a container of it is being started; the start must not
// come through afterwards: kubernetes/kubernetes#125050.
func TestUpstream125050StartUnderWayIsBeatenByStop(t *testing.T) {
	slowStart := func(c fake.Call) time.Duration {
		if c.Op == fake.OpStartContainer {
			return 10 * time.Second
		}
		return 0
	}
	inBubble(t, fake.WorldOptions{Latency: slowStart}, func(t *testing.T, n *node) {
		id := n.create(n.sandbox("u", 0), "web", 0)
		started := make(chan error, 1)
		go func() { started <- n.StartContainer(t.Context(), id) }()
		after(5 * time.Second)
		require.NoError(t, n.StopContainer(t.Context(), id, time.Minute))
		require.Error(t, <-started)
		assert.Equal(t, runtime.StateExited, n.latest("u", "web").State)
		assert.True(t, n.latest("u", "web").StartedAt.IsZero())
	})
}

func TestNewRuntimeOverTheSameWorldIsAnAgentRestart(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{}, fake.Exit(time.Minute, 7))
		id := n.run(n.sandbox("u", 0), "web", 0)
		after(30 * time.Second)
		again, err := fake.New(fake.Options{World: n.World})
		require.NoError(t, err)
		after(31 * time.Second)
		st, err := again.PodStatus(t.Context(), "u")
		require.NoError(t, err)
		assert.Equal(t, id, st.Latest("web").ID)
		assert.EqualValues(t, 7, st.Latest("web").ExitCode)
		assert.Equal(t, time.Minute, st.Latest("web").FinishedAt.Sub(st.Latest("web").StartedAt))
	})
}
