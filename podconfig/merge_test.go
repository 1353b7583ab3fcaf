// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

// said is a change and the expected updates as formatted by brief.
type said struct {
	change podconfig.Change
	want   string
}

func snapshot(want string, pods ...*v1.Pod) said { return said{podconfig.Snapshot(pods...), want} }
func upsert(want string, pods ...*v1.Pod) said   { return said{podconfig.Upsert(pods...), want} }

// TestMergeOneSource tests the rules of a source, change by change.
func TestMergeOneSource(t *testing.T) {
	a, b, c := pod("a", "1"), pod("b", "2"), pod("c", "3")
	remove := podconfig.Remove
	for _, tt := range []struct {
		name    string
		changes []said
	}{
		{"first snapshot, empty: the source is ready", []said{snapshot("ADD[]+"), snapshot("")}},
		{"first snapshot with pods: no empty ADD", []said{snapshot("ADD[a/1 b/2]+", a, b), snapshot("", a, b)}},
		{"snapshot order is kept", []said{snapshot("ADD[b/2 a/1]+", b, a), snapshot("", a, b)}},
		{"unknown is ADD", []said{snapshot("ADD[a/1]+", a), snapshot("ADD[b/2]", a, b)}},
		{"absent is REMOVE, in order of arrival", []said{snapshot("ADD[c/3 a/1 b/2]+", c, a, b), snapshot("REMOVE[c/3 a/1 b/2]")}},
		{"spec is UPDATE", []said{upsert("ADD[a/1]", a), upsert("UPDATE[a/1]", pod("a", "1", image("x:2")))}},
		{"labels are UPDATE", []said{upsert("ADD[a/1]", a), upsert("UPDATE[a/1]", pod("a", "1", label("k", "v"))),
			upsert("UPDATE[a/1]", pod("a", "1", label("k", "w"))), upsert("UPDATE[a/1]", a)}},
		{"annotations are UPDATE, going as well as coming", []said{upsert("ADD[a/1]", a),
			upsert("UPDATE[a/1]", pod("a", "1", annotation("k", "v"))), upsert("UPDATE[a/1]", a)}},
		{"the hash is no local annotation", []said{upsert("ADD[a/1]", a), upsert("UPDATE[a/1]", pod("a", "1", annotation(podconfig.AnnotationHash, "h")))}},
		{"local annotations are no difference", []said{upsert("ADD[a/1]", a),
			upsert("", pod("a", "1", annotation(podconfig.AnnotationSource, "x"))),
			upsert("", pod("a", "1", annotation(podconfig.AnnotationMirror, "x"))),
			upsert("", pod("a", "1", annotation(podconfig.AnnotationFirstSeen, "x")))}},
		{"status is RECONCILE", []said{upsert("ADD[a/1]", a), upsert("RECONCILE[a/1]", pod("a", "1", phase(v1.PodRunning)))}},
		{"status rides along", []said{upsert("ADD[a/1]", a), upsert("UPDATE[a/1]", pod("a", "1", label("k", "v"), phase(v1.PodRunning)))}},
		{"DeletionTimestamp is DELETE", []said{upsert("ADD[a/1]", a), upsert("DELETE[a/1]", pod("a", "1", deleting(30))),
			upsert("", pod("a", "1", deleting(30)))}},
		{"new with DeletionTimestamp is ADD", []said{upsert("ADD[a/1]", pod("a", "1", deleting(30)))}},
		{"while deleting: label, grace, status, end", []said{upsert("ADD[a/1]", pod("a", "1", deleting(30))),
			upsert("DELETE[a/1]", pod("a", "1", deleting(30), label("k", "v"))),
			upsert("DELETE[a/1]", pod("a", "1", deleting(1), label("k", "v"))),
			upsert("RECONCILE[a/1]", pod("a", "1", deleting(1), label("k", "v"), phase(v1.PodFailed))),
			upsert("UPDATE[a/1]", pod("a", "1", label("k", "v"), phase(v1.PodFailed)))}},
		{"same name, new UID: REMOVE before ADD", []said{snapshot("ADD[a/1]+", a), snapshot("REMOVE[a/1] ADD[a/9]", pod("a", "9"))}},
		{"same, as a delta", []said{upsert("ADD[a/1]", a), upsert("REMOVE[a/1] ADD[a/9]", pod("a", "9"))}},
		{"names swapped", []said{upsert("ADD[a/1 b/2]", a, b), upsert("REMOVE[b/2 a/1] ADD[a/2 b/1]", pod("a", "2"), pod("b", "1"))}},
		{"names swapped in a snapshot", []said{snapshot("ADD[a/1 b/2]+", a, b), snapshot("REMOVE[a/1 b/2] ADD[a/2 b/1]", pod("a", "2"), pod("b", "1"))}},
		{"same UID, new name", []said{upsert("ADD[a/1]", a), upsert("REMOVE[a/1] ADD[z/1]", pod("z", "1")), upsert("ADD[a/9]", pod("a", "9"))}},
		{"Remove looks at UIDs alone, in their order", []said{upsert("ADD[a/1 b/2]", a, b),
			{remove("2", "unknown", "1", "2"), "REMOVE[b/2 a/1]"}, {remove("1"), ""}, upsert("ADD[a/1]", a)}},
		{"deltas do not mark the source", []said{upsert("ADD[a/1]", a), {remove("1"), "REMOVE[a/1]"}, snapshot("ADD[]+")}},
		{"first snapshot that only removes and reconciles", []said{upsert("ADD[a/1 b/2]", a, b),
			snapshot("REMOVE[b/2] ADD[] RECONCILE[a/1]+", pod("a", "1", phase(v1.PodRunning)))}},
		{"first snapshot that updates: no empty ADD", []said{upsert("ADD[a/1]", a), snapshot("UPDATE[a/1]+", pod("a", "1", image("x:2")))}},
		{"everything at once, in the order that counts", []said{
			snapshot("ADD[a/1 b/2 c/3 d/4]+", a, b, c, pod("d", "4")),
			snapshot("REMOVE[d/4] ADD[e/5] UPDATE[c/3] DELETE[b/2] RECONCILE[a/1]",
				pod("a", "1", phase(v1.PodRunning)), pod("b", "2", deleting(1)), pod("c", "3", label("k", "v")), pod("e", "5"))}},
		{"empty deltas", []said{upsert(""), {remove(), ""}}},
		{"first of a name wins", []said{snapshot("ADD[a/1]+", a, pod("a", "9")), snapshot("REMOVE[a/1] ADD[a/9]", pod("a", "9"), a)}},
		{"without name or namespace", []said{snapshot("ADD[/1]+", &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}}), snapshot("REMOVE[/1]")}},
		{"a rejected pod claims nothing", []said{upsert("ADD[a/1 b/2]", a, pod("b", "1"), b)}},
		{"nil and nameless UIDs do not fail the others", []said{snapshot("ADD[b/2]+", nil, pod("a", ""), b)}},
		{"a bad pod alone", []said{upsert("", nil), upsert("", pod("a", "")), snapshot("ADD[]+", nil)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t, podconfig.StoreOptions{})
			for i, c := range tt.changes {
				require.Equal(t, c.want, brief(merge(t, s, podconfig.SourceFile, c.change)), "change %d", i)
			}
		})
	}
}

func TestMergeKeepsSourcesApart(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	require.Equal(t, "ADD[a/1]+", brief(merge(t, s, "file", podconfig.Snapshot(pod("a", "1")))))
	require.Equal(t, "ADD[a/1]+", brief(merge(t, s, "api", podconfig.Snapshot(pod("a", "1")))))
	require.Empty(t, merge(t, s, "api", podconfig.Remove("unknown")))
	require.Equal(t, "REMOVE[a/1]", brief(merge(t, s, "api", podconfig.Snapshot())))
	require.Empty(t, merge(t, s, "file", podconfig.Snapshot(pod("a", "1"))), "the file's pod stays")
}

func TestMergeStampsAnnotations(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	source, seen, mirror := podconfig.AnnotationSource, podconfig.AnnotationFirstSeen, podconfig.AnnotationMirror

	added := merge(t, s, "api", podconfig.Upsert(pod("a", "1", annotation(source, "file"), annotation(seen, "long ago"))))[0].Pods[0]
	require.Equal(t, "api", added.Annotations[source], "what the object brought is overwritten")
	at, ok := podconfig.FirstSeen(added)
	require.True(t, ok)
	require.Equal(t, at.Format("2006-01-02T15:04:05.000000000Z07:00"), added.Annotations[seen])

	require.Empty(t, merge(t, s, "api", podconfig.Upsert(pod("a", "1", annotation(mirror, "h")))), "a mirror annotation alone is not told")
	updated := merge(t, s, "api", podconfig.Upsert(pod("a", "1", label("k", "v"), annotation("mine", "too"))))[0].Pods[0]
	require.Equal(t, map[string]string{source: "api", seen: added.Annotations[seen], mirror: "h", "mine": "too"}, updated.Annotations)

	removed := merge(t, s, "api", podconfig.Remove("1"))[0].Pods[0]
	require.Equal(t, updated, removed, "REMOVE carries the last object")
}

func TestMergeErrorsMergeNothing(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	_, err := s.Merge(t.Context(), "", podconfig.Snapshot())
	require.ErrorIs(t, err, podconfig.ErrNoSource)
	_, err = s.Merge(t.Context(), "file", podconfig.Change{})
	require.ErrorIs(t, err, podconfig.ErrUnknownChange)
	reason := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	_, err = s.Merge(ctx, "file", podconfig.Snapshot(pod("a", "1")))
	require.ErrorIs(t, err, reason)
	require.ErrorContains(t, err, `Snapshot of source "file"`)

	require.False(t, s.Seen("file"))
	require.Equal(t, "ADD[a/1]+", brief(merge(t, s, "file", podconfig.Snapshot(pod("a", "1")))))
}

// TestMergeTrustsVersionsOfTheAPISourceAlone expects comparisons to be skipped only for versions of
// an API server.
func TestMergeTrustsVersionsOfTheAPISourceAlone(t *testing.T) {
	before, after := pod("a", "1", version("7")), pod("a", "1", version("7"), image("x:2"))
	for _, tt := range []struct {
		name, source string
		first, then  podconfig.Change
		want         string
	}{
		{"api snapshot", "api", podconfig.Snapshot(before), podconfig.Snapshot(after), ""},
		{"api snapshot after delta", "api", podconfig.Upsert(before), podconfig.Snapshot(after), "ADD[]+"},
		{"api delta is always compared", "api", podconfig.Snapshot(before), podconfig.Upsert(after), "UPDATE[a/1]"},
		{"a manifest from kubectl get -o yaml", "file", podconfig.Snapshot(before), podconfig.Snapshot(after), "UPDATE[a/1]"},
		{"no version", "api", podconfig.Snapshot(pod("a", "1")), podconfig.Snapshot(pod("a", "1", image("x:2"))), "UPDATE[a/1]"},
		{"another pod of the same version", "api", podconfig.Snapshot(before), podconfig.Snapshot(pod("a", "2", version("7"))), "REMOVE[a/1] ADD[a/2]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t, podconfig.StoreOptions{})
			merge(t, s, tt.source, tt.first)
			require.Equal(t, tt.want, brief(merge(t, s, tt.source, tt.then)))
		})
	}
	t.Run("a seed proves no version", func(t *testing.T) {
		s := newStore(t, podconfig.StoreOptions{Seed: map[string][]*v1.Pod{"api": {before}}})
		require.Equal(t, "UPDATE[a/1]+", brief(merge(t, s, "api", podconfig.Snapshot(after))))
	})
}

// A pod with other content is told if its version is not the last one, although an earlier object of
// the pod had the version.
func TestMergeTrustsTheLastVersionAlone(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	merge(t, s, "api", podconfig.Snapshot(pod("a", "1", version("7"))))
	require.Empty(t, merge(t, s, "api", podconfig.Snapshot(pod("a", "1", version("8")))))
	require.Empty(t, merge(t, s, "api", podconfig.Snapshot(pod("a", "1", version("8"), image("x:2")))), "not compared")
	require.Equal(t, "UPDATE[a/1]", brief(merge(t, s, "api", podconfig.Snapshot(pod("a", "1", version("7"), image("x:2"))))))
}
