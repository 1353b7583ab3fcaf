// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func TestJournalPrintsOneLinePerEntry(t *testing.T) {
	slow := func(c fake.Call) time.Duration {
		if c.Op == fake.OpRunSandbox {
			return 250 * time.Millisecond
		}
		return 0
	}
	inBubble(t, fake.WorldOptions{Latency: slow}, func(t *testing.T, n *node) {
		n.Script(fake.Target{Container: "web"}, fake.Exit(time.Minute, 1), fake.Script{TermAfter: 2 * time.Second})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Err: errors.New("line one\nline two"), Nth: 1})
		sb := n.sandbox("u", 0)
		n.run(sb, "web", 0)
		after(90 * time.Second)
		_, err := n.PodStatus(t.Context(), "u")
		require.Error(t, err)
		id := n.run(sb, "web", 1)
		_, _, _, err = n.Exec(t.Context(), id, []string{"cat", "/a\nb"})
		require.NoError(t, err)
		require.NoError(t, n.StopContainer(t.Context(), id, time.Minute))
		require.Error(t, n.StartContainer(t.Context(), id))
		require.Error(t, n.RemoveContainer(t.Context(), runtime.ContainerID{Runtime: "fake", ID: "nobody"}))
		_, err = n.PodStatus(t.Context(), "nobody")
		require.NoError(t, err)
		_, err = n.List(t.Context(), runtime.ListOptions{RunningOnly: true})
		require.NoError(t, err)
		n.Reboot()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n.inject(fake.Fault{HangUntilCtx: true})
		go func() { _ = n.StopSandbox(ctx, sb) }()
		after(time.Second)
		assert.Equal(t, `      0.000s RunSandbox default/pod-u sandbox-00000002 attempt 0: ok (250ms)
      0.250s CreateContainer default/pod-u/web container-00000003 restart 0: ok
      0.250s StartContainer default/pod-u/web container-00000003: ok
     60.250s exited default/pod-u/web container-00000003 code 1 (Error)
     90.250s PodStatus default/pod-u: line one; line two
     90.250s CreateContainer default/pod-u/web container-00000004 restart 1: ok
     90.250s StartContainer default/pod-u/web container-00000004: ok
     90.250s Exec default/pod-u/web container-00000004 ["cat" "/a\nb"]: ok
     90.250s StopContainer default/pod-u/web container-00000004 grace 1m0s: ok (2s)
     90.250s terminating default/pod-u/web container-00000004
     92.250s exited default/pod-u/web container-00000004 code 0 (Completed)
     92.250s StartContainer default/pod-u/web container-00000004: start container-00000004, which is exited: the container is not in state created
     92.250s RemoveContainer nobody: container "nobody": not found
     92.250s PodStatus nobody: ok
     92.250s List running only: ok
     92.250s rebooted
     92.250s StopSandbox default/pod-u sandbox-00000002: under way
`, n.Journal().String())
		cancel()
		after(time.Second)
		j := n.Journal()
		assert.False(t, j[len(j)-1].UnderWay)
		require.ErrorIs(t, j[len(j)-1].Err, context.Canceled)
		assert.Len(t, j.Of(fake.Target{Op: fake.OpExited}), 2)
	})
}

func TestJournalIsBounded(t *testing.T) {
	for _, tt := range []struct {
		limit, kept int
	}{{0, 20}, {100, 20}, {16, 16}, {5, 5}, {1, 1}, {-1, 0}} {
		inBubble(t, fake.WorldOptions{JournalLimit: tt.limit}, func(t *testing.T, n *node) {
			sb := n.sandbox("u", 0)
			for i := range int32(5) {
				id := n.run(sb, "web", i)
				if i > 0 {
					require.NoError(t, n.RemoveContainer(t.Context(), id))
				} else {
					require.NoError(t, n.Kill("u", "web", 0))
				}
				after(time.Second)
			}
			// 1 sandbox, 5 × (create, start, exited), 4 removals: 20 entries.
			j := n.Journal()
			require.Len(t, j, tt.kept)
			assert.Equal(t, 20-tt.kept, n.Dropped())
			for i := 1; i < len(j); i++ {
				assert.LessOrEqual(t, j[i-1].At, j[i].At, "oldest first")
			}
			if tt.kept > 0 {
				assert.Equal(t, fake.OpExited, j[len(j)-1].Op, "the latest are kept")
			}
			assert.Equal(t, 5, n.Total(fake.OpStartContainer), "totals are exact")
			assert.Equal(t, 5, n.Total(fake.OpExited))
			assert.Len(t, j.Of(fake.Target{Op: fake.OpStartContainer}), n.Count(fake.Target{Op: fake.OpStartContainer}))
			require.NoError(t, n.NoOverlap())
		})
	}
}

func TestBefore(t *testing.T) {
	inBubble(t, fake.WorldOptions{JournalLimit: 8}, func(t *testing.T, n *node) {
		sb := n.sandbox("u", 0)
		n.run(sb, "init", 0)
		require.NoError(t, n.Kill("u", "init", 0))
		n.run(sb, "web", 0)
		startInit := fake.Target{Op: fake.OpStartContainer, Container: "init"}
		exitInit := fake.Target{Op: fake.OpExited, Container: "init"}
		startWeb := fake.Target{Op: fake.OpStartContainer, Container: "web"}
		require.NoError(t, n.Before(exitInit, startWeb))
		require.NoError(t, n.Before(startInit, exitInit))
		require.EqualError(t, n.Before(startWeb, exitInit), "StartContainer container=web (entry 5) did not come before exited container=init (entry 3)")
		require.Error(t, n.Before(startWeb, startWeb))
		require.EqualError(t, n.Before(fake.Target{Op: fake.OpStopSandbox}, startWeb), "StopSandbox never happened")
		require.EqualError(t, n.Before(startWeb, fake.Target{Pod: "x", UID: "y", Image: "z"}), "uid=y pod=x image=z never happened")
		for range 3 {
			n.status("u")
		}
		require.ErrorContains(t, n.Before(exitInit, startWeb), "dropped 1 entries")
		assert.Equal(t, "anything", fake.Target{}.String())
	})
}

// This assertion, which many tests use, must be able to fail.
func TestNoOverlapSeesTwoRunningInstances(t *testing.T) {
	inBubble(t, fake.WorldOptions{JournalLimit: -1}, func(t *testing.T, n *node) {
		n.Script(fake.Target{Container: "stubborn"}, fake.Script{TermAfter: fake.Never})
		sb := n.sandbox("u", 0)
		n.run(sb, "web", 0)
		n.run(n.sandbox("v", 0), "web", 0)
		n.run(sb, "db", 0)
		require.NoError(t, n.NoOverlap(), "another pod, another name")
		require.NoError(t, n.Kill("u", "web", 1))
		n.run(sb, "web", 1)
		require.NoError(t, n.NoOverlap(), "one after the other")

		n.create(sb, "web", 2)
		require.NoError(t, n.NoOverlap(), "created is not running")
		after(time.Minute)
		n.run(sb, "web", 2)
		require.EqualError(t, n.NoOverlap(), "default/pod-u/web: container-00000010 started at 1m0s while container-00000008 was running")

		// In an old sandbox, while dying, or in an unknown state: the container runs until it has
		// exited.
		n.run(sb, "stubborn", 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, n.StopContainer(ctx, n.latest("u", "stubborn").ID, time.Hour))
		require.NoError(t, n.LoseTrack("u", "stubborn"))
		n.run(n.sandbox("u", 1), "stubborn", 1)
		require.ErrorContains(t, n.NoOverlap(), "default/pod-u/stubborn: ")
	})
}

func TestEndlessOverlapsAreNotAllKept(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		sb := n.sandbox("u", 0)
		for i := range int32(30) {
			n.run(sb, "web", i)
		}
		joined, ok := n.NoOverlap().(interface{ Unwrap() []error })
		require.True(t, ok)
		assert.Len(t, joined.Unwrap(), 100)
	})
}
