// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// slowForgetter forgets slowly, and records the time.
type slowForgetter struct {
	funcSyncer
	mu        sync.Mutex
	takes     time.Duration
	forgotten map[types.UID][]time.Duration // how long it took, each time
	began     map[types.UID]time.Duration   // when SyncPod was called last
}

func newSlowForgetter(takes time.Duration) *slowForgetter {
	s := &slowForgetter{takes: takes, forgotten: map[types.UID][]time.Duration{}, began: map[types.UID]time.Duration{}}
	start := time.Now()
	s.sync = func(_ context.Context, r SyncRequest) (Outcome, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.began[r.Pod.UID] = time.Since(start)
		return Outcome{}, nil
	}
	return s
}

func (s *slowForgetter) Forgotten(uid types.UID) {
	start := time.Now()
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten[uid] = append(s.forgotten[uid], time.Since(start))
}

// told is how often it was told to forget a pod; begun is when the pod was last synced, false for never.
func (s *slowForgetter) told(uid types.UID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.forgotten[uid])
}

func (s *slowForgetter) begun(uid types.UID) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.began[uid]
	return at, ok
}

// TestEachForgottenPodIsTold, also if several are forgotten at once, and each may begin again afterwards.
func TestEachForgottenPodIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowForgetter(time.Second)
		w, stop := runWorkers(t, Options{Syncer: s})
		defer stop()
		pods := []types.UID{"a", "b", "c"}
		for _, uid := range pods {
			send(t, w, Update{Type: UpdateCreate, Pod: testPod(uid)})
			send(t, w, Update{Type: UpdateKill, Pod: testPod(uid)})
		}
		for range 2 {
			w.SyncKnownPods(nil)
		}
		for _, uid := range pods {
			require.Equal(t, 1, s.told(uid), uid)
			before, _ := s.begun(uid)
			send(t, w, Update{Type: UpdateCreate, Pod: testPod(uid)})
			after, _ := s.begun(uid)
			require.Greater(t, after, before, "it begins again")
		}
	})
}

// TestTheNextLifeWaitsForForgotten, for each of the lives before.
func TestTheNextLifeWaitsForForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowForgetter(10 * time.Second)
		w, stop := runWorkers(t, Options{Syncer: s})
		defer stop()
		holder, waiting := testPod("holder", static("web")), testPod("a", static("web"))
		send(t, w, Update{Type: UpdateCreate, Pod: holder})
		for range 2 { // lives of a that wait for the name, forgotten at 0 s and at 1 s
			send(t, w, Update{Type: UpdateCreate, Pod: waiting})
			go w.SyncKnownPods([]*v1.Pod{holder})
			time.Sleep(time.Second)
		}
		send(t, w, Update{Type: UpdateCreate, Pod: waiting})
		send(t, w, Update{Type: UpdateKill, Pod: holder})
		time.Sleep(8500 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 1, s.told("a"))
		_, early := s.begun("a")
		assert.False(t, early)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, s.told("a"))
		at, _ := s.begun("a")
		assert.Equal(t, 11*time.Second, at)
	})
}

// TestStopAllWaitsForOrphans: an orphan is forgotten when it has ended.
func TestStopAllWaitsForOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{orphan: func(context.Context, Orphan, int64) error {
			time.Sleep(5 * time.Second)
			return nil
		}}})
		defer stop()
		send(t, w, Update{Type: UpdateKill, Orphan: &Orphan{UID: "o", Namespace: "ns", Name: "o"}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		require.NoError(t, w.StopAll(ctx))
		assert.Equal(t, 5*time.Second, time.Since(start))
	})
}

// TestMirrorPodStaysWhileItsPodEnds: the mirror pod stays as long as the pod holds the name.
func TestMirrorPodStaysWhileItsPodEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{terminating: func(context.Context, TerminatingRequest) error {
			time.Sleep(5 * time.Second)
			return nil
		}}})
		defer stop()
		ending := func() bool { return w.IsPodForMirrorPodTerminatingByFullName("a_ns") }
		assert.False(t, ending())
		send(t, w, Update{Type: UpdateCreate, Pod: testPod("a", static("a"))})
		assert.False(t, ending())
		send(t, w, Update{Type: UpdateKill, Pod: testPod("a", static("a"))})
		assert.True(t, ending())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.False(t, ending())
	})
}
