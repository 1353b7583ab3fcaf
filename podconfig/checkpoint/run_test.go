// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/checkpoint"
)

// running is a fixture with a running writer, in a bubble.
type running struct {
	*fixture
	stop func()
}

func run(t *testing.T, edit ...func(*checkpoint.Options)) *running {
	r := &running{fixture: newFixture(t, t.TempDir(), edit...)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.writer.Run(ctx) }()
	r.stop = func() {
		cancel()
		require.NoError(t, <-done)
	}
	synctest.Wait()
	return r
}

// change merges a change and notes its updates.
func (r *running) change(c podconfig.Change) {
	note := r.writer.Tee(func(context.Context, podconfig.Update) error { return nil })
	for _, u := range r.say("api", c) {
		require.NoError(r, note(r.Context(), u))
	}
	synctest.Wait()
}

func (r *running) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRunGathersChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		r.change(podconfig.Snapshot(pod("a", "a:1")))
		for range 9 {
			r.wait(100 * time.Millisecond)
			r.change(podconfig.Upsert(pod("a", time.Now().String())))
		}
		require.False(t, r.exists(r.path), "nothing is written yet")
		r.change(podconfig.Upsert(pod("a", "last")))
		r.wait(100 * time.Millisecond)
		require.Equal(t, []string{"api/a=last"}, r.read(), "a second after the first change, however many follow")

		require.NoError(t, os.Remove(r.path))
		r.wait(time.Hour)
		require.False(t, r.exists(r.path), "no change, no write")
		r.stop()
		require.False(t, r.exists(r.path))
		require.ErrorIs(t, r.writer.Run(t.Context()), checkpoint.ErrRunning)
	})
}

func TestRunIsInNoHurryWithStatuses(t *testing.T) {
	status := func(phase v1.PodPhase) podconfig.Change {
		p := pod("a", "a:1")
		p.Status.Phase = phase
		return podconfig.Upsert(p)
	}
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		r.change(podconfig.Snapshot(pod("a", "a:1")))
		r.wait(time.Second)
		require.NoError(t, os.Remove(r.path))
		r.change(status(v1.PodRunning))
		r.wait(59 * time.Second)
		require.False(t, r.exists(r.path))
		r.wait(time.Second)
		require.True(t, r.exists(r.path), "within a minute")

		require.NoError(t, os.Remove(r.path))
		r.change(status(v1.PodPending))
		r.change(status(v1.PodSucceeded))
		r.wait(time.Second)
		require.True(t, r.exists(r.path), "that a pod ended matters")
		r.stop()
	})
}

func TestRunSavesWhatIsLeftAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		r.change(podconfig.Snapshot(pod("a", "a:1")))
		r.stop()
		require.Equal(t, []string{"api/a=a:1"}, r.read())
		require.Empty(t, r.told())
	})
}

func TestRunTellsAProblemOnceAndTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		blocked := r.path + ".tmp/full"
		require.NoError(t, os.MkdirAll(blocked, 0o700))
		r.change(podconfig.Snapshot(pod("a", "a:1")))
		for range 10 {
			r.wait(time.Minute)
			r.change(podconfig.Upsert(pod("a", time.Now().String())))
		}
		require.Equal(t, []string{"write: directory not empty"}, r.told())
		require.NoError(t, os.RemoveAll(r.path+".tmp"))
		r.change(podconfig.Upsert(pod("a", "a:2")))
		r.wait(time.Second)
		require.Empty(t, r.told(), "a failing disk is not tried more often because there is more to write")
		r.wait(time.Minute)
		require.Equal(t, []string{"ok"}, r.told())
		require.Equal(t, []string{"api/a=a:2"}, r.read())
		r.stop()
	})
}

func TestTeeHandsOnFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, func(o *checkpoint.Options) { o.Sources = []string{"api"} })
		refused := errors.New("refused")
		var got []podconfig.Op
		out := r.writer.Tee(func(_ context.Context, u podconfig.Update) error {
			got = append(got, u.Op)
			if u.Op == podconfig.OpRemove {
				return refused
			}
			return nil
		})
		require.ErrorIs(t, out(t.Context(), podconfig.Update{Op: podconfig.OpRemove, Source: "api"}), refused)
		require.NoError(t, out(t.Context(), podconfig.Update{Op: podconfig.OpAdd, Source: "file"}))
		r.wait(time.Hour)
		require.False(t, r.exists(r.path), "refused, and of a source that is not saved")
		require.NoError(t, out(t.Context(), podconfig.Update{Op: podconfig.OpAdd, Source: "api"}))
		r.wait(time.Second)
		require.True(t, r.exists(r.path))
		require.Equal(t, []podconfig.Op{podconfig.OpRemove, podconfig.OpAdd, podconfig.OpAdd}, got)
		r.stop()
	})
}
