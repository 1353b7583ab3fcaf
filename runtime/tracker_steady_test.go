// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// manyPods fills a node.
func (n *node) manyPods(count int) {
	n.Helper()
	for i := range count {
		pod := newPod()
		pod.Name, pod.UID = fmt.Sprint("pod-", i), types.UID(fmt.Sprint("uid-", i))
		n.mustSync(pod)
	}
}

// calls counts the calls to the backend since before.
func (n *node) calls(before int) []fake.Op {
	var ops []fake.Op
	for _, e := range n.world.Journal()[before:] {
		ops = append(ops, e.Op)
	}
	return ops
}

// The kubelet inspects every changed pod, and with the evented PLEG also lists all pods. A quiet
// node costs a single call.
func TestRelistOf500UnchangedPodsIsOneList(t *testing.T) {
	inBubble(t, func(n *node) {
		n.manyPods(500)
		tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: n.rt})
		require.NoError(n, err)
		require.NoError(n, tracker.Relist(n.Context()))
		require.Len(n, tracker.Take(), 500, "every pod, to begin with")
		before := len(n.world.Journal())
		require.NoError(n, tracker.Relist(n.Context()))
		require.Equal(n, []fake.Op{fake.OpList}, n.calls(before))
		require.Empty(n, tracker.Take())

		require.NoError(n, n.world.Kill("uid-77", "c", 1))
		n.pass(time.Millisecond)
		before = len(n.world.Journal())
		require.NoError(n, tracker.Relist(n.Context()))
		require.Equal(n, []fake.Op{fake.OpList}, n.calls(before), "who wants to know looks at the pod itself")
		require.Equal(n, []types.UID{"uid-77"}, tracker.Take())
	})
}

func TestSteadySyncPodCallsNoBackend(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		status := n.mustSync(pod)
		before := len(n.world.Journal())
		result := n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Status: status})
		require.NoError(n, result.Err())
		require.Empty(n, result.Plans)
		require.Empty(n, n.calls(before))
	})
}

// BenchmarkRelist500Pods is a look of the tracker at 500 unchanged pods. The goal is 20 ms. The
// floor is the fake's own time for its list.
func BenchmarkRelist500Pods(b *testing.B) {
	world, err := fake.NewWorld(fake.WorldOptions{JournalLimit: -1})
	require.NoError(b, err)
	defer world.Close()
	rt, err := fake.New(fake.Options{World: world})
	require.NoError(b, err)
	generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
	require.NoError(b, err)
	manager, err := runtime.New(runtime.Options{Runtime: rt, Generator: generator})
	require.NoError(b, err)
	for i := range 500 {
		pod := newPod()
		pod.Name, pod.UID = fmt.Sprint("pod-", i), types.UID(fmt.Sprint("uid-", i))
		require.NoError(b, manager.SyncPod(b.Context(), runtime.SyncRequest{Pod: pod}).Err())
	}
	tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: rt})
	require.NoError(b, err)
	require.NoError(b, tracker.Relist(b.Context()))
	b.Run("keelson", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, tracker.Relist(b.Context()))
		}
	})
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := rt.List(b.Context(), runtime.ListOptions{})
			require.NoError(b, err)
		}
	})
	b.Run("naive", func(b *testing.B) { // look at every pod
		b.ReportAllocs()
		for b.Loop() {
			pods, err := rt.List(b.Context(), runtime.ListOptions{})
			require.NoError(b, err)
			for _, p := range pods {
				_, err := rt.PodStatus(b.Context(), p.UID)
				require.NoError(b, err)
			}
		}
	})
}
