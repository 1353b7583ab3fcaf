// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// slowPatcher takes a second for everything, and keeps nothing.
type slowPatcher struct{}

func (slowPatcher) PatchStatus(_ context.Context, ref PodRef, _ []byte) (*v1.Pod, error) {
	time.Sleep(time.Second)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}}, nil
}

func (slowPatcher) DeletePod(context.Context, PodRef) error { return nil }

// asked is a cache without pods that counts the questions.
type asked struct {
	mu sync.Mutex
	n  int
}

func (a *asked) Pod(types.UID) (*v1.Pod, bool)      { a.count(); return nil, false }
func (a *asked) Mirror(types.UID) (*v1.Pod, bool)   { a.count(); return nil, false }
func (a *asked) Static(types.UID) (types.UID, bool) { return "", false }

func (a *asked) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	return a.n
}

// TestForgottenPodIsLookedUpAnew: a pod that returns while its last request is in flight is compared
// with the cache, as a new pod is.
func TestForgottenPodIsLookedUpAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := &asked{}
		m, err := New(Options{Patcher: slowPatcher{}, Pods: cache})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a"}}
		for _, forgotten := range []bool{false, true} {
			_, err := m.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning})
			require.NoError(t, err)
			time.Sleep(time.Second / 2) // its request is in flight
			if forgotten {
				m.RemoveOrphanedStatuses(func(types.UID) bool { return false })
			}
			before := cache.count()
			_, err = m.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning, Reason: "Again"})
			require.NoError(t, err)
			assert.Equal(t, forgotten, cache.count() > before+1)
			time.Sleep(time.Minute)
		}
		cancel()
		require.NoError(t, <-done)
	})
}

// TestNothingStaysOfForgottenPods, also if a request is in flight, or the pod returns meanwhile.
func TestNothingStaysOfForgottenPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(Options{Patcher: slowPatcher{}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		all := func(types.UID) bool { return false }
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a"}}
		set := func(reason string) {
			_, err := m.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning, Reason: reason})
			require.NoError(t, err)
		}
		entries := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.mu.entries) + len(m.mu.static) + len(m.mu.mirrors) + m.mu.lanes.len() + len(m.mu.delays.heap)
		}
		set("first")
		time.Sleep(time.Second / 2)
		m.RemoveOrphanedStatuses(all)
		assert.Equal(t, 1, entries(), "its request is still in flight")
		time.Sleep(time.Second)
		assert.Zero(t, entries())

		set("second")
		time.Sleep(time.Second / 2)
		m.RemoveOrphanedStatuses(all)
		set("third")
		began := time.Now()
		require.NoError(t, m.WaitSynced(t.Context(), "a"))
		assert.Equal(t, time.Second/2+time.Second, time.Since(began), "the answer to the second is not one to the third")

		m.RemoveOrphanedStatuses(all)
		m.Observed(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "m", Annotations: map[string]string{podfacts.AnnotationMirror: "h"}}})
		static := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "h", Annotations: map[string]string{
			podfacts.AnnotationSource: "file", podfacts.AnnotationHash: "h",
		}}}
		_, err = m.SetPodStatus(static, v1.PodStatus{})
		require.NoError(t, err)
		synctest.Wait() // the pod has left the queue
		before := entries()
		assert.Positive(t, before)
		_, err = m.SetContainerReadiness("nobody", "id", true)
		require.NoError(t, err)
		assert.Equal(t, before, entries(), "an unknown pod leaves nothing")
		time.Sleep(time.Minute)
		m.RemoveOrphanedStatuses(all)
		assert.Zero(t, entries())
		cancel()
		require.NoError(t, <-done)
	})
}

// TestNewMirrorPodIsNotForgotten: while keep is asked about a mirror pod, another one takes its place.
func TestNewMirrorPodIsNotForgotten(t *testing.T) {
	m, err := New(Options{})
	require.NoError(t, err)
	mirror := func(uid types.UID) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: uid, Annotations: map[string]string{podfacts.AnnotationMirror: "h"}}}
	}
	m.Observed(mirror("old"))
	m.RemoveOrphanedStatuses(func(uid types.UID) bool {
		if uid == "old" {
			m.Observed(mirror("new"))
		}
		return uid == "new"
	})
	assert.EqualValues(t, "new", m.mu.mirrors[keyOf(mirror("new"))].UID)
}
