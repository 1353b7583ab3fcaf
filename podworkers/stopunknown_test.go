// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStopUnknownLeavesKnownPodsAlone: a listing of the runtime is older than a pod that arrived meanwhile.
func TestStopUnknownLeavesKnownPodsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var graces []int64
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{orphan: func(_ context.Context, _ Orphan, grace int64) error {
			graces = append(graces, grace)
			return nil
		}}})
		require.NoError(t, w.SetPods([]*v1.Pod{testPod("a")}, false))
		stopUnknown := func(uid types.UID, grace time.Duration) (bool, error) { return w.StopUnknown(uid, "ns", "name", grace) }
		stopping, err := stopUnknown("a", time.Second)
		require.NoError(t, err)
		assert.False(t, stopping)
		stopping, err = stopUnknown("b", 1500*time.Millisecond)
		require.NoError(t, err)
		assert.True(t, stopping)
		synctest.Wait()
		assert.Equal(t, StateSync, info(t, w, "a").State)
		assert.Equal(t, []int64{2}, graces)
		stopping, err = stopUnknown("", 0)
		require.ErrorIs(t, err, ErrInvalidUpdate)
		assert.False(t, stopping)
		assert.False(t, closed(w.Synced()))
		require.NoError(t, w.SetPods(nil, true))
		assert.True(t, closed(w.Synced()))
		stop()
		_, err = stopUnknown("b", 0)
		require.ErrorIs(t, err, ErrStopped)
		require.ErrorIs(t, w.SetPods(nil, true), ErrStopped)
		assert.False(t, w.Sync("a"))
	})
}

// TestAPodOfTheFirstCompleteCallIsNeverUnknown: an agent that restarts lists running pods as soon as
// Synced closes. The pods of the call that closes it have records by then.
func TestAPodOfTheFirstCompleteCallIsNeverUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{orphan: func(context.Context, Orphan, int64) error { return nil }}})
		defer stop()
		var pods []*v1.Pod
		for i := range 1000 {
			pods = append(pods, testPod(types.UID(strconv.Itoa(i))))
		}
		last := pods[len(pods)-1].UID
		ended := w.Terminated(last)
		stopped := make(chan bool)
		go func() {
			<-w.Synced()
			stopping, _ := w.StopUnknown(last, "ns", "name", time.Second)
			stopped <- stopping
		}()
		require.NoError(t, w.SetPods(pods, true))
		assert.False(t, <-stopped, "StopUnknown stops a configured pod")
		assert.False(t, closed(ended), "Terminated reports the end of a pod that is about to start")
	})
}

// TestStopUnknownAgain: the call that stops an orphan knows its names, and a call with a shorter grace
// period takes its place. Grace periods are rounded up to whole seconds.
func TestStopUnknownAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var orphans []Orphan
		var graces []int64
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{orphan: func(ctx context.Context, o Orphan, grace int64) error {
			orphans, graces = append(orphans, o), append(graces, grace)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Duration(grace) * time.Second):
				return nil
			}
		}}})
		defer stop()
		began := time.Now()
		ended := w.Terminated("b")
		for _, grace := range []time.Duration{time.Hour, time.Second + 1} {
			stopping, err := w.StopUnknown("b", "ns", "name", grace)
			require.NoError(t, err)
			assert.True(t, stopping)
			synctest.Wait()
		}
		<-ended
		assert.Equal(t, []int64{3600, 2}, graces)
		assert.Equal(t, []Orphan{{UID: "b", Namespace: "ns", Name: "name"}, {UID: "b", Namespace: "ns", Name: "name"}}, orphans)
		assert.Less(t, time.Since(began), 20*time.Second, "the shorter period interrupts the call")
	})
}

// TestStopAllTwice: two calls wait for the same pod, and the error names an orphan without a name by its
// UID.
func TestStopAllTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{orphan: func(context.Context, Orphan, int64) error {
			time.Sleep(10 * time.Second)
			return nil
		}}})
		defer stop()
		began := time.Now()
		_, err := w.StopUnknown("b", "", "", time.Second)
		require.NoError(t, err)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- w.StopAll(t.Context()) }()
			synctest.Wait()
		}
		require.ErrorContains(t, w.StopAll(short), "podworkers: stop all pods: b did not end")
		for range 2 {
			require.NoError(t, <-results)
			assert.Equal(t, 10*time.Second, time.Since(began))
		}
	})
}
