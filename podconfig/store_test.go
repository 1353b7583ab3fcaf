// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/podconfig"
)

func TestNewStoreNamesTheBadField(t *testing.T) {
	for name, o := range map[string]podconfig.StoreOptions{
		"StoreOptions.Seed":         {Seed: map[string][]*v1.Pod{"": nil}},
		`StoreOptions.Seed["api"]`:  {Seed: map[string][]*v1.Pod{"api": {pod("a", "1"), nil}}},
		`StoreOptions.Seed["http"]`: {Seed: map[string][]*v1.Pod{"http": {pod("a", "1"), pod("b", "1")}}},
	} {
		_, err := podconfig.NewStore(o)
		require.ErrorContains(t, err, name)
	}
}

func TestStoreSeed(t *testing.T) {
	const since = "2001-02-03T04:05:06.000000007Z"
	seeded := pod("a", "1", annotation(podconfig.AnnotationFirstSeen, since), phase(v1.PodRunning))
	o := podconfig.StoreOptions{Seed: map[string][]*v1.Pod{"api": {seeded, pod("b", "2"), pod("c", "3")}}}
	s := newStore(t, o)
	require.False(t, s.Seen("api"))
	seeded.Annotations[podconfig.AnnotationFirstSeen] = "edited"

	got := merge(t, s, "api", podconfig.Snapshot(pod("a", "1", image("x:2")), pod("b", "2"), pod("d", "4")))
	require.Equal(t, "REMOVE[c/3] ADD[d/4] UPDATE[a/1]+", brief(got))
	require.Equal(t, since, got[2].Pods[0].Annotations[podconfig.AnnotationFirstSeen])
	require.Equal(t, "api", got[0].Pods[0].Annotations[podconfig.AnnotationSource])
	_, ok := podconfig.FirstSeen(got[0].Pods[0])
	require.True(t, ok, "a seed without a first-seen time gets one")
	require.True(t, s.Seen("api"))
}

func TestStoreSeenAndDrop(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	require.NoError(t, s.Register("file", "api"))
	merge(t, s, "api", podconfig.Upsert(pod("c", "3")))
	merge(t, s, "file", podconfig.Snapshot(pod("a", "1"), pod("b", "2")))
	require.True(t, s.Seen("file"))
	require.False(t, s.Seen("api"), "a delta is not all")
	require.False(t, s.Seen("unknown"))
	merge(t, s, "api", podconfig.Snapshot(pod("c", "3")))
	require.True(t, s.Seen("api"))
	var sources []string
	for source := range s.Pods() {
		sources = append(sources, source)
	}
	require.Equal(t, []string{"file", "file", "api"}, sources, "in the order of Register")

	require.ErrorIs(t, s.Register("bus", ""), podconfig.ErrNoSource)
	require.NoError(t, s.Register("bus", "file"))
	require.Empty(t, s.Drop("bus"))

	require.Equal(t, "REMOVE[a/1 b/2]", brief(s.Drop("file")))
	require.Empty(t, s.Drop("file"))
	require.Equal(t, "ADD[a/1]+", brief(merge(t, s, "file", podconfig.Snapshot(pod("a", "1")))), "a dropped source starts anew")
}

// TestStoreRegistersAll expects the order of Register, whichever source is merged first.
func TestStoreRegistersAll(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	require.NoError(t, s.Register("file", "api", "url"))
	var got []string
	for i, source := range []string{"url", "api", "file"} {
		merge(t, s, source, podconfig.Upsert(pod("p", types.UID(fmt.Sprint(i)))))
	}
	for source := range s.Pods() {
		got = append(got, source)
	}
	require.Equal(t, []string{"file", "api", "url"}, got)
}

// TestStoreReplay expects an ADD for each source with pods, and no mark of a complete source.
func TestStoreReplay(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	require.NoError(t, s.Register("file", "api", "url"))
	merge(t, s, "url", podconfig.Snapshot(pod("d", "4")))
	merge(t, s, "api", podconfig.Snapshot())
	merge(t, s, "file", podconfig.Snapshot(pod("c", "3"), pod("a", "1"), pod("b", "2")))
	got := s.Replay()
	require.Equal(t, "ADD[c/3 a/1 b/2] ADD[d/4]", brief(got))
	require.Equal(t, []string{"file", "url"}, []string{got[0].Source, got[1].Source})
	stored, _ := s.Get("url", "4")
	require.Equal(t, stored, got[1].Pods[0])
	require.NotSame(t, stored, got[1].Pods[0], "the consumer owns the pods")
}

// TestStoreAndThePodsOfAChange expects the same stored pod whether the source keeps its pods or gives
// them away. The store edits neither. The source may edit the pods that it keeps.
func TestStoreAndThePodsOfAChange(t *testing.T) {
	made := func(ref, message string) *v1.Pod {
		p := pod("a", "1", image(ref), label("k", ref), annotation("mine", ref))
		p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Message: message}}
		return p
	}
	for _, given := range []bool{true, false} {
		s := newStore(t, podconfig.StoreOptions{})
		for _, want := range []*v1.Pod{made("x:1", "new"), made("x:1", "other status"), made("x:2", "other status"), made("x:3", "both")} {
			in := want.DeepCopy()
			c := podconfig.Upsert(in)
			require.False(t, c.IsGiven())
			if given {
				c = c.Given()
				require.True(t, c.IsGiven())
			}
			merge(t, s, "api", c)
			require.Equal(t, want, in)
			if !given {
				in.Labels["k"], in.Annotations["mine"], in.Spec.Containers[0].Image, in.Status.Conditions[0].Message = "edit", "edit", "edit", "edit"
			}
			got, _ := s.Get("api", "1")
			got = got.DeepCopy()
			delete(got.Annotations, podconfig.AnnotationSource)
			delete(got.Annotations, podconfig.AnnotationFirstSeen)
			require.Equal(t, want, got)
		}
	}
}

func TestStorePodsAndGet(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{})
	merge(t, s, "file", podconfig.Snapshot(pod("b", "2"), pod("a", "1")))
	merge(t, s, "api", podconfig.Snapshot(pod("c", "3")))
	var got []string
	for source, p := range s.Pods() {
		got = append(got, source+" "+p.Name)
		merge(t, s, source, podconfig.Remove(p.UID))
	}
	require.Equal(t, []string{"file b", "file a", "api c"}, got, "the loop sees what was there when it began")
	for range s.Pods() {
		require.Fail(t, "all pods were removed")
	}

	merge(t, s, "file", podconfig.Upsert(pod("a", "1")))
	before, ok := s.Get("file", "1")
	require.True(t, ok)
	merge(t, s, "file", podconfig.Upsert(pod("a", "1", image("x:2"))))
	require.Equal(t, "registry.example/app:1", before.Spec.Containers[0].Image, "a pod that was got never changes")
	_, ok = s.Get("file", "2")
	require.False(t, ok)
	_, ok = s.Get("api", "1")
	require.False(t, ok)
	_, ok = s.Get("unknown", "1")
	require.False(t, ok)
	for range s.Pods() {
		break
	}
}

// TestSeedOfSeveralSources expects the pods of all seeded sources.
func TestSeedOfSeveralSources(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{Seed: map[string][]*v1.Pod{
		"api": {pod("a", "1")}, "file": {pod("b", "2"), pod("c", "3")}, "url": {pod("d", "4")},
	}})
	var got []string
	for source, p := range s.Pods() {
		got = append(got, source+" "+p.Name)
	}
	require.ElementsMatch(t, []string{"api a", "file b", "file c", "url d"}, got)
	_, err := podconfig.NewStore(podconfig.StoreOptions{Seed: map[string][]*v1.Pod{"api": nil, "url": {pod("a", "1"), pod("a", "1")}}})
	require.ErrorContains(t, err, `Seed["url"]`)
}

func TestStoreReportsRejectedPods(t *testing.T) {
	var got []podconfig.Rejection
	s := newStore(t, podconfig.StoreOptions{Rejected: func(r podconfig.Rejection) { got = append(got, r) }})
	double := pod("a", "9")
	merge(t, s, "file", podconfig.Snapshot(pod("a", "1"), double, pod("b", "1"), nil, pod("c", "")))

	require.Len(t, got, 4)
	for i, want := range []error{podconfig.ErrDuplicateName, podconfig.ErrDuplicateUID, podconfig.ErrInvalidPod, podconfig.ErrInvalidPod} {
		require.ErrorIs(t, got[i].Err, want)
		require.Equal(t, "file", got[i].Source)
	}
	require.Equal(t, double, got[0].Pod)
	require.NotSame(t, double, got[0].Pod)
	require.Nil(t, got[2].Pod)
	require.EqualError(t, got[0].Err, "podconfig: duplicate pod name: a_ns of UID 9 came after UID 1")
	require.EqualError(t, got[1].Err, "podconfig: duplicate pod UID: b_ns of UID 1 came after a_ns")
	require.EqualError(t, got[3].Err, "podconfig: invalid pod: c_ns has no UID")
}

func TestStoreLogsRejectedPodsIfNobodyElseWants(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	s := newStore(t, podconfig.StoreOptions{Logger: zap.New(core)})
	merge(t, s, "file", podconfig.Snapshot(pod("a", "1"), pod("a", "9"), nil))
	require.Equal(t, 2, logs.Len())
	require.Equal(t, "a_ns", logs.All()[0].ContextMap()["pod"])

	rejected := 0
	s = newStore(t, podconfig.StoreOptions{Logger: zap.New(core), Rejected: func(podconfig.Rejection) { rejected++ }})
	merge(t, s, "file", podconfig.Snapshot(pod("a", "1"), pod("a", "9")))
	require.Equal(t, 1, rejected)
	require.Equal(t, 2, logs.Len(), "a rejection is reported in one place")
}

func TestStoreReportsConflictsOncePerAdd(t *testing.T) {
	var got []podconfig.Rejection
	s := newStore(t, podconfig.StoreOptions{Rejected: func(r podconfig.Rejection) { got = append(got, r) }})
	merge(t, s, "file", podconfig.Snapshot(pod("a", "1"), pod("b", "2")))
	for range 3 {
		merge(t, s, "http", podconfig.Snapshot(pod("a", "9"), pod("x", "2"), pod("y", "5")))
	}
	merge(t, s, "http", podconfig.Upsert(pod("a", "9", label("k", "v"))))

	require.Len(t, got, 2)
	for i, want := range []string{
		`podconfig: pod conflicts with another source: "file" has a pod of the same name a_ns, UID 1`,
		`podconfig: pod conflicts with another source: "file" has b_ns of the same UID 2`,
	} {
		require.ErrorIs(t, got[i].Err, podconfig.ErrConflict)
		require.EqualError(t, got[i].Err, want)
	}

	merge(t, s, "api", podconfig.Snapshot(pod("b", "mirror", annotation(podconfig.AnnotationMirror, "h"))))
	require.Len(t, got, 2, "a mirror pod is no conflict")
	merge(t, s, "bus", podconfig.Upsert(pod("y", "7")))
	require.Len(t, got, 3)

	merge(t, s, "api", podconfig.Upsert(pod("late", "mirror", annotation(podconfig.AnnotationMirror, "h"))))
	merge(t, s, "url", podconfig.Upsert(pod("late", "8")))
	require.Len(t, got, 3, "a static pod is no conflict with its mirror pod that came first")
}

func TestStoreSharedOutput(t *testing.T) {
	for _, shared := range []bool{true, false} {
		s := newStore(t, podconfig.StoreOptions{})
		if shared {
			s = newStore(t, podconfig.Shared(podconfig.StoreOptions{}))
		}
		got := merge(t, s, "api", podconfig.Upsert(pod("a", "1")))[0].Pods[0]
		stored, _ := s.Get("api", "1")
		require.Equal(t, stored, got)
		require.Equal(t, shared, stored == got)
	}
}

// TestStoreIsSafeForConcurrentUse is for the race detector.
func TestStoreIsSafeForConcurrentUse(t *testing.T) {
	s := newStore(t, podconfig.Shared(podconfig.StoreOptions{}))
	var wg sync.WaitGroup
	for i := range 4 {
		source := fmt.Sprint("source", i%3)
		wg.Go(func() {
			for j := range 200 {
				uid := types.UID(fmt.Sprint(j % 7))
				_, err := s.Merge(t.Context(), source, podconfig.Upsert(pod("p"+string(uid), uid, image(fmt.Sprint(j)))))
				assert.NoError(t, err)
				for _, p := range s.Pods() {
					_ = p.DeepCopy()
				}
				_, err = s.Merge(t.Context(), source, podconfig.Remove(types.UID(fmt.Sprint(j%5))))
				assert.NoError(t, err)
				s.Seen(source)
			}
		})
	}
	wg.Wait()
}
