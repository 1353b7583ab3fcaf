// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

func newNotifier(t *testing.T, s *podconfig.Store, m podconfig.Mode) *podconfig.Notifier {
	t.Helper()
	n, err := podconfig.NewNotifier(s, m)
	require.NoError(t, err)
	return n
}

// TestNotifierModes goes through contract §1.7: one change, and what each mode tells of it.
func TestNotifierModes(t *testing.T) {
	a, b := pod("a", "1"), pod("b", "2")
	edited, ending := pod("a", "1", image("x:2")), pod("b", "2", deleting(30))
	for _, tt := range []struct {
		name                   string
		before                 []*v1.Pod
		change                 podconfig.Change
		increments, both, sets string
	}{
		{"first snapshot", nil, podconfig.Snapshot(a, b), "ADD[a/1 b/2]+", "SET[z/9 a/1 b/2]+", "SET[z/9 a/1 b/2]+"},
		{"first snapshot, empty", nil, podconfig.Snapshot(), "ADD[]+", "SET[z/9]+", "SET[z/9]+"},
		{"nothing new", []*v1.Pod{a}, podconfig.Snapshot(a), "", "", ""},
		{"ADD", []*v1.Pod{a}, podconfig.Upsert(b), "ADD[b/2]", "SET[z/9 a/1 b/2]", "SET[z/9 a/1 b/2]"},
		{"REMOVE", []*v1.Pod{a, b}, podconfig.Remove("1"), "REMOVE[a/1]", "SET[z/9 b/2]", "SET[z/9 b/2]"},
		{"UPDATE", []*v1.Pod{a, b}, podconfig.Upsert(edited), "UPDATE[a/1]", "UPDATE[a/1]", "SET[z/9 a/1 b/2]"},
		{"DELETE", []*v1.Pod{a, b}, podconfig.Upsert(ending), "DELETE[b/2]", "DELETE[b/2]", "SET[z/9 a/1 b/2]"},
		{"RECONCILE", []*v1.Pod{a}, podconfig.Upsert(pod("a", "1", phase(v1.PodRunning))), "RECONCILE[a/1]", "", ""},
		{"all at once", []*v1.Pod{a, b, pod("c", "3")}, podconfig.Snapshot(edited, ending, pod("d", "4")),
			"REMOVE[c/3] ADD[d/4] UPDATE[a/1] DELETE[b/2]", "SET[z/9 a/1 b/2 d/4] UPDATE[a/1] DELETE[b/2]", "SET[z/9 a/1 b/2 d/4]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for mode, want := range map[podconfig.Mode]string{
				podconfig.ModeIncremental: tt.increments, podconfig.ModeSnapshotAndUpdates: tt.both, podconfig.ModeSnapshot: tt.sets,
			} {
				s := newStore(t, podconfig.StoreOptions{})
				n := newNotifier(t, s, mode)
				merge(t, s, "api", podconfig.Snapshot(pod("z", "9")))
				if tt.before != nil {
					merge(t, s, "file", podconfig.Snapshot(tt.before...))
				}
				got, err := n.Merge(t.Context(), "file", tt.change)
				require.NoError(t, err)
				require.Equal(t, want, brief(got), "mode %d", mode)
				for _, u := range got {
					require.Equal(t, "file", u.Source, "the source that changed")
				}
			}
		})
	}
}

// Contract §1.7: in the first snapshot of a source that only removes, the OpSet is the last word, thus the synced one.
func TestNotifierFirstSnapshotAfterDeltas(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	n := newNotifier(t, s, podconfig.ModeSnapshotAndUpdates)
	merge(t, s, "api", podconfig.Upsert(pod("a", "1"), pod("b", "2")))
	got, err := n.Merge(t.Context(), "api", podconfig.Snapshot(pod("b", "2", image("x:2"))))
	require.NoError(t, err)
	require.Equal(t, "SET[b/2] UPDATE[b/2]+", brief(got))
}

func TestNotifierSyncDropAndErrors(t *testing.T) {
	for mode := podconfig.ModeIncremental; mode <= podconfig.ModeSnapshot; mode++ {
		s := newStore(t, podconfig.StoreOptions{})
		n := newNotifier(t, s, mode)
		require.NoError(t, n.Register("api"))
		require.False(t, s.SeenAll())
		merge(t, s, "api", podconfig.Snapshot(pod("a", "1")))
		merge(t, s, "file", podconfig.Snapshot(pod("b", "2")))
		all := n.Sync()
		require.Equal(t, "SET[a/1 b/2]", brief([]podconfig.Update{all}))
		require.Equal(t, podconfig.AllSources, all.Source)
		scribbleAll(all.Pods)
		require.Equal(t, "SET[a/1 b/2]", brief([]podconfig.Update{n.Sync()}), "the pods are copies")

		_, err := n.Merge(t.Context(), "", podconfig.Snapshot())
		require.ErrorIs(t, err, podconfig.ErrNoSource)
		want := map[podconfig.Mode]string{podconfig.ModeIncremental: "REMOVE[a/1]"}[mode]
		if want == "" {
			want = "SET[b/2]"
		}
		require.Equal(t, want, brief(n.Drop("api")))
		require.ErrorIs(t, podconfig.NewQueue().Push(t.Context(), all), podconfig.ErrInvalidUpdate)
	}
}

// The kubelet's zero mode (up to 1.35) panics when the first pods come.
func TestUpstreamZeroModePanicsAtTheFirstMerge(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	for _, mode := range []podconfig.Mode{0, podconfig.ModeSnapshot + 1} {
		_, err := podconfig.NewNotifier(s, mode)
		require.ErrorIs(t, err, podconfig.ErrMode)
	}
	_, err := podconfig.NewNotifier(nil, podconfig.ModeSnapshot)
	require.ErrorIs(t, err, podconfig.ErrMode)
}

// TestPropertyNotifiersKnowTheSame: whoever follows a mode knows, but for status and trifles, what the store holds.
func TestPropertyNotifiersKnowTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(newSeed(t), 3))
	for range 20 {
		steps := readScript(randomScript(r, 600))
		for mode := podconfig.ModeSnapshotAndUpdates; mode <= podconfig.ModeSnapshot; mode++ {
			s := newStore(t, podconfig.StoreOptions{Rejected: func(podconfig.Rejection) {}})
			n, known := newNotifier(t, s, mode), follower{}
			for i, step := range steps {
				updates, err := n.Merge(t.Context(), step.source, step.change())
				require.NoError(t, err)
				known.followSets(updates)
				require.Equal(t, intents(s), known, "mode %d, step %d: %s", mode, i, step)
			}
		}
	}
}

// followSets follows the updates of a mode with snapshots.
func (f follower) followSets(updates []podconfig.Update) {
	for _, u := range updates {
		if u.Op == podconfig.OpSet {
			clear(f)
		}
		for _, p := range u.Pods {
			source, _ := podconfig.SourceOf(p)
			f[key{source, string(p.UID)}] = intent(p)
		}
	}
}

func intents(s *podconfig.Store) follower {
	f := follower{}
	for source, p := range s.Pods() {
		f[key{source, string(p.UID)}] = intent(p)
	}
	return f
}

func intent(p *v1.Pod) held {
	h := hold(p)
	h.trifle, h.status = 0, 0
	return h
}

func TestStoreReplay(t *testing.T) {
	o := podconfig.StoreOptions{Seed: map[string][]*v1.Pod{"api": {pod("b", "2"), pod("a", "1")}}, Sources: []string{"file"}}
	s := newStore(t, o)
	merge(t, s, "bus", podconfig.Snapshot(pod("c", "3")))
	got := s.Replay()
	require.Equal(t, "ADD[b/2 a/1] ADD[c/3]", brief(got), "never synced, nothing of a source without pods")
	require.Equal(t, []string{"api", "bus"}, []string{got[0].Source, got[1].Source})
	require.False(t, slices.ContainsFunc(got, func(u podconfig.Update) bool { return u.Synced }))
	scribbleAll(got[0].Pods)
	require.Equal(t, "ADD[b/2 a/1] ADD[c/3]", brief(s.Replay()), "the pods are copies")
	require.Empty(t, newStore(t, podconfig.StoreOptions{}).Replay())
}
