// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

// Each test in this file shows the absence of a fault of kubelet 1.36.3. Tests of the wiring are in
// run_test.go.

// The kubelet keeps the caller's object and later compares it with itself.
func TestUpstreamEditOfARetainedInputIsLost(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	p := pod("a", "1")
	merge(t, s, "file", podconfig.Snapshot(p))
	p.Spec.Containers[0].Image = "x:2"
	require.Equal(t, "UPDATE[a/1]", brief(merge(t, s, "file", podconfig.Snapshot(p))))
	p.Labels = map[string]string{"k": "v"}
	require.Equal(t, "UPDATE[a/1]", brief(merge(t, s, "file", podconfig.Upsert(p))))
}

// The kubelet writes its annotations into the caller's object, which may be a reflector's.
func TestUpstreamInputIsMutated(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	p := pod("a", "1")
	merge(t, s, "api", podconfig.Snapshot(p))
	require.Equal(t, pod("a", "1"), p)
}

func TestUpstreamOutputSharesMemoryWithTheNextUpdate(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	first := merge(t, s, "api", podconfig.Upsert(pod("a", "1", label("k", "v"))))[0].Pods[0]
	first.Labels["k"], first.Spec.Containers[0].Image = "mine", "mine"
	require.Empty(t, merge(t, s, "api", podconfig.Upsert(pod("a", "1", label("k", "v")))))
	second := merge(t, s, "api", podconfig.Upsert(pod("a", "1", label("k", "v"), phase(v1.PodRunning))))[0].Pods[0]
	require.Equal(t, "registry.example/app:1", second.Spec.Containers[0].Image)
	require.Equal(t, "v", second.Labels["k"])
}

func TestUpstreamLabelsNilToEmptyIsAnUpdate(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	merge(t, s, "file", podconfig.Upsert(pod("a", "1")))
	p := pod("a", "1")
	p.Labels, p.Annotations, p.Spec.Volumes = map[string]string{}, map[string]string{}, []v1.Volume{}
	p.Status.Conditions = []v1.PodCondition{}
	require.Empty(t, merge(t, s, "file", podconfig.Upsert(p)))
}

func TestUpstreamMillicoresSpellingIsAnUpdate(t *testing.T) {
	cpu := func(amount string) podOption {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
		}
	}
	s := newStore(t, podconfig.StoreOptions{})
	merge(t, s, "file", podconfig.Upsert(pod("a", "1", cpu("1000m"))))
	require.Empty(t, merge(t, s, "file", podconfig.Upsert(pod("a", "1", cpu("1")))))
	require.Equal(t, "UPDATE[a/1]", brief(merge(t, s, "file", podconfig.Upsert(pod("a", "1", cpu("1001m"))))))
}

func TestUpstreamDeletionTimestampInAnotherZoneIsADelete(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	p := pod("a", "1", deleting(30))
	merge(t, s, "api", podconfig.Upsert(p))
	p.DeletionTimestamp = &metav1.Time{Time: p.DeletionTimestamp.In(elsewhere)}
	require.Empty(t, merge(t, s, "api", podconfig.Upsert(p)))
}

// The kubelet reports the second of two names with the same UID again and again.
func TestUpstreamDuplicateUIDFlaps(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	both := podconfig.Snapshot(pod("x", "1"), pod("y", "1"))
	require.Equal(t, "ADD[x/1]+", brief(merge(t, s, "file", both)))
	for range 3 {
		require.Empty(t, merge(t, s, "file", both))
	}
}

// With deltas the kubelet (up to 1.35) keeps both pods of the same name, and its index loses a pod.
func TestUpstreamDeltaLeavesTwoPodsOfOneName(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	merge(t, s, "api", podconfig.Upsert(pod("a", "1")))
	require.Equal(t, "REMOVE[a/1] ADD[a/2]", brief(merge(t, s, "api", podconfig.Upsert(pod("a", "2")))))
	_, ok := s.Get("api", "1")
	require.False(t, ok)
}

// The kubelet never stores a change of other metadata, not even together with a reported change.
func TestUpstreamMetadataGoesStale(t *testing.T) {
	trifles := func(p *v1.Pod) {
		p.ResourceVersion, p.Generation, p.Finalizers = "8", 2, []string{"example.com/f"}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j"}}
	}
	s := newStore(t, podconfig.StoreOptions{})
	merge(t, s, "api", podconfig.Upsert(pod("a", "1", version("7"))))
	before, _ := s.Get("api", "1")
	require.Empty(t, merge(t, s, "api", podconfig.Upsert(pod("a", "1", trifles))), "nothing that a consumer is told about")
	after, _ := s.Get("api", "1")
	require.Equal(t, "8", after.ResourceVersion)
	require.Equal(t, before.Annotations, after.Annotations)

	told := merge(t, s, "api", podconfig.Upsert(pod("a", "1", trifles, phase(v1.PodRunning))))
	require.Equal(t, "RECONCILE[a/1]", brief(told))
	require.Equal(t, "Job", told[0].Pods[0].OwnerReferences[0].Kind)
	require.Equal(t, []string{"example.com/f"}, told[0].Pods[0].Finalizers)
	typed := pod("a", "1", trifles, phase(v1.PodRunning))
	typed.Kind = "Pod"
	require.Empty(t, merge(t, s, "api", podconfig.Upsert(typed)))
	after, _ = s.Get("api", "1")
	require.Equal(t, "Pod", after.Kind)
}

// The kubelet removes in the order of a map.
func TestUpstreamRemovalsComeInRandomOrder(t *testing.T) {
	for range 20 {
		s := newStore(t, podconfig.StoreOptions{})
		merge(t, s, "file", podconfig.Snapshot(pod("e", "5"), pod("d", "4"), pod("c", "3"), pod("b", "2"), pod("a", "1")))
		require.Equal(t, "REMOVE[e/5 d/4 c/3 b/2 a/1]", brief(merge(t, s, "file", podconfig.Snapshot())))
	}
}

// The kubelet reports every pod of every snapshot to its latency observer as "first seen now".
func TestUpstreamObserverIsToldOfEveryPodOfEverySnapshot(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	first := map[string]time.Time{}
	for i := range 3 {
		for _, u := range merge(t, s, "api", podconfig.Snapshot(pod("a", "1"), pod("b", "2", image(fmt.Sprint("x:", i))))) {
			for _, p := range u.Pods {
				seen, ok := podconfig.FirstSeen(p)
				require.True(t, ok)
				if u.Op == podconfig.OpAdd {
					require.NotContains(t, first, p.Name)
					first[p.Name] = seen
				}
				require.Equal(t, first[p.Name], seen)
			}
		}
	}
	require.Len(t, first, 2)
}

// PR #15167: a source is seen in the store while its pods still wait on their way to the consumer.
// The kubelet's fix accepts any update as the last.
func TestUpstream15167SourceIsReadyBeforeItsPodsArrived(t *testing.T) {
	s, q := newStore(t, podconfig.StoreOptions{}), podconfig.NewQueue()
	r := podconfig.NewReadiness("api")
	var known []string
	handle := func() {
		u, ok := q.Pop()
		require.True(t, ok)
		for _, p := range u.Pods {
			known = append(known, p.Name)
		}
		r.Consumed(u)
	}
	say := func(c podconfig.Change) {
		for _, u := range merge(t, s, "api", c) {
			require.NoError(t, q.Push(t.Context(), u))
		}
	}
	say(podconfig.Upsert(pod("a", "1")))
	handle()
	require.False(t, r.Ready("api"), "a delta is not all")
	say(podconfig.Snapshot(pod("a", "1", image("x:2")), pod("b", "2"), pod("c", "3")))
	require.True(t, s.Seen("api"))
	require.False(t, r.Ready("api"), "nothing has arrived")
	handle()
	require.Equal(t, []string{"a", "b", "c"}, known)
	require.False(t, r.Ready("api"), "the update of a has not arrived")
	handle()
	require.True(t, r.Ready("api"))
}

// #59275, #15122: a single silent source closes the gate for all sources.
func TestUpstream15195OneSilentSourceHoldsAllOthers(t *testing.T) {
	r := podconfig.NewReadiness("file", "api")
	r.Consumed(podconfig.Update{Op: podconfig.OpAdd, Source: "file", Synced: true})
	require.True(t, r.Ready("file"))
	require.False(t, r.Ready("api"))
	require.False(t, r.AllReady())
}

// #6764, #12691: after 50 updates the bus is full for every source.
func TestUpstream6764BlockedConsumerBlocksOtherSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := podconfig.NewQueue()
		var sources []podconfig.Source
		for _, name := range []string{"api", "file", "http"} {
			sources = append(sources, chatter(name, 1_000))
		}
		stop := start(t, newStore(t, podconfig.StoreOptions{}), q.Push, sources...)
		synctest.Wait() // no consumer reads
		require.Equal(t, 3*(1+1), q.Len(), "one pod and one mark per source")
		require.NoError(t, stop())
	})
}
