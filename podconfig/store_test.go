// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/podconfig"
)

func TestNewStoreNamesTheBadField(t *testing.T) {
	for name, o := range map[string]podconfig.StoreOptions{
		"StoreOptions.Sources":      {Sources: []string{"file", ""}},
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
	require.False(t, s.SeenAll(), "a seeded source counts")
	seeded.Annotations[podconfig.AnnotationFirstSeen] = "edited"

	got := merge(t, s, "api", podconfig.Snapshot(pod("a", "1", image("x:2")), pod("b", "2"), pod("d", "4")))
	require.Equal(t, "REMOVE[c/3] ADD[d/4] UPDATE[a/1]+", brief(got))
	require.Equal(t, since, got[2].Pods[0].Annotations[podconfig.AnnotationFirstSeen])
	require.Equal(t, "api", got[0].Pods[0].Annotations[podconfig.AnnotationSource])
	_, ok := podconfig.FirstSeen(got[0].Pods[0])
	require.True(t, ok, "a seed without a first-seen time gets one")
	require.True(t, s.SeenAll())
}

func TestStoreSeenAndDrop(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{Sources: []string{"file", "api"}})
	require.False(t, s.SeenAll())
	merge(t, s, "file", podconfig.Snapshot(pod("a", "1"), pod("b", "2")))
	merge(t, s, "api", podconfig.Upsert(pod("c", "3")))
	require.True(t, s.Seen("file"))
	require.False(t, s.Seen("api"), "a delta is not all")
	require.False(t, s.Seen("unknown"))
	merge(t, s, "api", podconfig.Snapshot())
	require.True(t, s.SeenAll())

	require.ErrorIs(t, s.Register("bus", ""), podconfig.ErrNoSource)
	require.True(t, s.SeenAll(), "nothing was registered")
	require.NoError(t, s.Register("bus", "file"))
	require.False(t, s.SeenAll(), "a further source is waited for")
	require.Empty(t, s.Drop("bus"))
	require.True(t, s.SeenAll())

	require.Equal(t, "REMOVE[a/1 b/2]", brief(s.Drop("file")))
	require.Empty(t, s.Drop("file"))
	require.Equal(t, "ADD[a/1]+", brief(merge(t, s, "file", podconfig.Snapshot(pod("a", "1")))), "a dropped source starts anew")
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

type recorder struct{ events []string }

func (r *recorder) Eventf(obj runtime.Object, eventType, reason, format string, args ...any) {
	r.events = append(r.events, fmt.Sprintf("%s %s %s: %s", obj.(*v1.Pod).Name, eventType, reason, fmt.Sprintf(format, args...)))
}

func TestStoreReportsRejectedPods(t *testing.T) {
	events := &recorder{}
	var got []podconfig.Rejection
	s := newStore(t, podconfig.StoreOptions{Recorder: events, Rejected: func(r podconfig.Rejection) { got = append(got, r) }})
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
	require.Equal(t, []string{
		`a Warning FailedValidation: Ignoring the pod from source "file": podconfig: duplicate pod name: a_ns of UID 9 came after UID 1`,
		`b Warning FailedValidation: Ignoring the pod from source "file": podconfig: duplicate pod UID: b_ns of UID 1 came after a_ns`,
		`c Warning FailedValidation: Ignoring the pod from source "file": podconfig: invalid pod: c_ns has no UID`,
	}, events.events)
}

func TestStoreLogsRejectedPodsIfNobodyElseWants(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	s := newStore(t, podconfig.StoreOptions{Logger: zap.New(core)})
	merge(t, s, "file", podconfig.Snapshot(pod("a", "1"), pod("a", "9"), nil))
	require.Equal(t, 2, logs.Len())
	require.Equal(t, "a_ns", logs.All()[0].ContextMap()["pod"])
}

func TestStoreReportsConflictsOncePerAdd(t *testing.T) {
	events := &recorder{}
	var got []podconfig.Rejection
	s := newStore(t, podconfig.StoreOptions{Recorder: events, Rejected: func(r podconfig.Rejection) { got = append(got, r) }})
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
	require.Empty(t, events.events, "both pods are taken")

	merge(t, s, "api", podconfig.Snapshot(pod("b", "mirror", annotation(podconfig.AnnotationMirror, "h"))))
	require.Len(t, got, 2, "a mirror pod is no conflict")
	merge(t, s, "bus", podconfig.Upsert(pod("y", "7")))
	require.Len(t, got, 3)
}

func TestStoreObservesEachAddOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		s := newStore(t, podconfig.StoreOptions{Observed: func(source string, p *v1.Pod, at time.Time) {
			seen, _ := podconfig.FirstSeen(p)
			assert.True(t, at.Equal(seen))
			got = append(got, source+" "+p.Name)
		}})
		for range 3 {
			time.Sleep(time.Second)
			merge(t, s, "api", podconfig.Snapshot(pod("a", "1"), pod("b", "2", image(time.Now().String()))))
		}
		require.Equal(t, []string{"api a", "api b"}, got)
	})
}

func TestStoreSharedOutput(t *testing.T) {
	for _, shared := range []bool{true, false} {
		s := newStore(t, podconfig.StoreOptions{SharedOutput: shared})
		got := merge(t, s, "api", podconfig.Upsert(pod("a", "1")))[0].Pods[0]
		stored, _ := s.Get("api", "1")
		require.Equal(t, stored, got)
		require.Equal(t, shared, stored == got)
	}
}

// TestStoreIsSafeForConcurrentUse is for the race detector.
func TestStoreIsSafeForConcurrentUse(t *testing.T) {
	s := newStore(t, podconfig.StoreOptions{SharedOutput: true})
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
				s.SeenAll()
			}
		})
	}
	wg.Wait()
}
