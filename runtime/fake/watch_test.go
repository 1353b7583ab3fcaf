// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// watch collects the hints of Watch until its end.
func watch(ctx context.Context, rt runtime.Watcher) (hints func() []types.UID, end func() error) {
	var mu sync.Mutex
	var got []types.UID
	done := make(chan error, 1)
	go func() {
		for uid, err := range rt.Watch(ctx) {
			if err != nil {
				done <- err
				return
			}
			mu.Lock()
			got = append(got, uid)
			mu.Unlock()
		}
		done <- nil
	}()
	hints = func() []types.UID {
		after(0)
		mu.Lock()
		defer mu.Unlock()
		out := got
		got = nil
		return out
	}
	return hints, func() error { return <-done }
}

func TestWatchHintsAtWhatHappensByItself(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{Container: "short"}, fake.Exit(time.Minute, 0))
		ctx, cancel := context.WithCancel(t.Context())
		sbU := n.sandbox("u", 0)
		n.sandbox("v", 0)
		hints, end := watch(ctx, n)
		assert.Equal(t, []types.UID{"u", "v"}, hints(), "first, every pod")

		short, web := n.run(sbU, "short", 0), n.run(sbU, "web", 0)
		assert.Empty(t, hints(), "not at what calls do")
		after(time.Minute)
		assert.Equal(t, []types.UID{"u"}, hints(), "exit")
		for name, what := range map[string]func() error{
			"Replace":        func() error { _, err := n.Replace("u", "web"); return err },
			"LoseTrack":      func() error { return n.LoseTrack("u", "web") },
			"Kill":           func() error { return n.Kill("u", "web", 1) },
			"LoseRecords":    func() error { return n.LoseRecords("u", "web") },
			"SandboxLosesIP": func() error { return n.SandboxLosesIP("u") },
		} {
			if n.status("u").Latest("web") == nil || n.status("u").Latest("web").State == runtime.StateExited {
				n.run(sbU, "web", 1)
			}
			require.NoError(t, what())
			assert.Equal(t, []types.UID{"u"}, hints(), name)
		}
		require.NoError(t, n.RemoveContainer(t.Context(), short))
		_ = n.StopContainer(t.Context(), web, time.Minute)
		require.NoError(t, n.StopSandbox(t.Context(), sbU))
		assert.Empty(t, hints(), "not at what calls do")
		cancel()
		require.NoError(t, end())
	})
}

func TestWatchBeginsWithPodsThatExist(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		var sandboxes []runtime.SandboxID
		for _, uid := range []types.UID{"a", "b", "c", "d"} {
			sandboxes = append(sandboxes, n.sandbox(uid, 0))
			n.run(sandboxes[len(sandboxes)-1], "web", 0)
		}
		require.NoError(t, n.RemoveSandbox(t.Context(), sandboxes[1]))
		require.NoError(t, n.LoseRecords("c", "web"))
		require.NoError(t, n.RemoveSandbox(t.Context(), sandboxes[2]))
		n.sandbox("b", 0)
		ctx, cancel := context.WithCancel(t.Context())
		hints, end := watch(ctx, n)
		assert.Equal(t, []types.UID{"a", "d", "b"}, hints())
		cancel()
		require.NoError(t, end())
	})
}

func TestWatchHintsOnceAtManyChanges(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{}, fake.Exit(time.Second, 0))
		sb := n.sandbox("u", 0)
		for i := range int32(10) {
			n.run(sb, "web", i)
		}
		hints := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range n.Watch(ctx) {
			hints++
			time.Sleep(10 * time.Second) // a slow reader
		}
		assert.Equal(t, 2, hints, "the first one, and one for ten exits")
	})
}

func TestWatchBreaks(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		for name, tt := range map[string]struct {
			breaking func()
			want     string
		}{
			"BreakWatch":         {func() { n.BreakWatch(errBoom) }, "boom"},
			"BreakWatch, no why": {func() { n.BreakWatch(nil) }, "the stream of changes broke"},
			"Reboot":             {n.Reboot, "the machine was rebooted"},
		} {
			hints, end := watch(t.Context(), n)
			hints()
			tt.breaking()
			require.EqualError(t, end(), tt.want, name)
		}
	})
}

func TestWatchHasOneCaller(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		ctx, cancel := context.WithCancel(t.Context())
		hints, end := watch(ctx, n)
		hints()
		_, second := watch(ctx, n)
		require.Error(t, second())
		// Another agent over the same world has its own stream.
		other, err := fake.New(fake.Options{World: n.World})
		require.NoError(t, err)
		_, third := watch(ctx, other)
		cancel()
		require.NoError(t, end())
		require.NoError(t, third())
		_, again := watch(ctx, n)
		require.NoError(t, again(), "after the first has ended, and with a ctx that has, too")
	})
}

// A loop that is left early must not be called again, whatever the fault says.
func TestWatchLeftEarlyWithALostReply(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.sandbox("u", 0)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpWatch}, DoneButReplyLost: true})
		for _, err := range n.Watch(t.Context()) {
			require.NoError(t, err)
			break
		}
	})
}

// A hanging stream continues with the backend, because no caller would open it again.
func TestWatchThatHangsGoesOn(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		in := n.inject(fake.Fault{HangUntilCtx: true})
		ctx, cancel := context.WithCancel(t.Context())
		hints, end := watch(ctx, n)
		after(time.Hour)
		in.Clear()
		assert.Empty(t, hints(), "there is no pod yet")
		sandbox := n.sandbox("u", 0)
		n.run(sandbox, "web", 0)
		require.NoError(t, n.Kill("u", "web", 1))
		assert.Equal(t, []types.UID{"u"}, hints())
		cancel()
		require.NoError(t, end())
		in.Clear()
	})
}
