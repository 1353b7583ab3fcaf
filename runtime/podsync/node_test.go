// SPDX-License-Identifier: Apache-2.0

package podsync_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// node is Pods over a fake runtime, with minimal workers: they sync a pod at once on request, and
// at the time that the last sync returned.
type node struct {
	*testing.T
	world *fake.World
	opts  podsync.Options
	pods  *podsync.Pods
	stop  func()
	// complete: the runtime of the next start is a CompleteWatcher, which records its audits.
	complete bool
	audits   []time.Time

	mu       sync.Mutex
	known    map[types.UID]*v1.Pod
	orphans  []types.UID
	synced   chan struct{}
	wake     map[types.UID]chan struct{}
	statuses []v1.PodStatus
	ended    int
}

// play runs f in a bubble with a node.
func play(t *testing.T, edit func(*podsync.Options), f func(*node)) {
	t.Helper()
	logs := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		world, err := fake.NewWorld(fake.WorldOptions{})
		require.NoError(t, err)
		n := &node{
			T: t, world: world, known: map[types.UID]*v1.Pod{}, synced: make(chan struct{}), wake: map[types.UID]chan struct{}{},
			opts: podsync.Options{Generator: runtime.DefaultGeneratorOptions{LogRoot: logs}},
		}
		n.opts.Status = func(_ *v1.Pod, status v1.PodStatus) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.statuses = append(n.statuses, status)
		}
		n.opts.Ended = func(*v1.Pod) { n.ended++ }
		if edit != nil {
			edit(&n.opts)
		}
		n.start()
		defer func() { n.stop(); world.Close() }()
		f(n)
	})
}

// start starts an agent over the existing state.
func (n *node) start() {
	rt, err := fake.New(fake.Options{World: n.world})
	require.NoError(n, err)
	n.opts.Runtime = rt
	if n.complete {
		n.opts.Runtime = completeRuntime{rt, &n.audits}
	}
	n.pods, err = podsync.New(n.opts)
	require.NoError(n, err)
	ctx, cancel := context.WithCancel(n.Context())
	done := make(chan error, 1)
	pods := n.pods
	go func() { done <- pods.Run(ctx, n) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(n, <-done)
	})
}

// drive syncs a pod for some time.
func (n *node) drive(pod *v1.Pod, during time.Duration) (over bool) {
	n.Helper()
	wake := make(chan struct{}, 1)
	n.mu.Lock()
	n.known[pod.UID], n.wake[pod.UID] = pod, wake
	n.mu.Unlock()
	end := time.After(during)
	for {
		over, again, err := n.pods.Sync(n.Context(), pod)
		require.False(n, err != nil && again.IsZero(), "an error without a time to come again: %v", err)
		if over {
			return true
		}
		next := make(<-chan time.Time)
		if !again.IsZero() {
			next = time.After(time.Until(again))
		}
		select {
		case <-next:
		case <-wake:
		case <-end:
			return false
		}
	}
}

// end ends a pod as a worker does.
func (n *node) end(pod *v1.Pod, edit func(*v1.PodStatus)) {
	n.Helper()
	if edit == nil {
		edit = func(*v1.PodStatus) {}
	}
	require.NoError(n, n.pods.Stop(n.Context(), pod.UID, pod, 5*time.Second, edit))
	require.NoError(n, n.pods.Release(n.Context(), pod))
	n.mu.Lock()
	delete(n.known, pod.UID)
	n.mu.Unlock()
	n.pods.Forgotten(pod.UID)
}

// status is the one last published.
func (n *node) status() v1.PodStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	require.NotEmpty(n, n.statuses)
	return n.statuses[len(n.statuses)-1]
}

// Sync, StopUnknown and the rest make the node podsync.Workers.
func (n *node) Sync(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known[uid]; !ok {
		return false
	}
	select {
	case n.wake[uid] <- struct{}{}:
	default:
	}
	return true
}

func (n *node) StopUnknown(uid types.UID, _, _ string, grace time.Duration) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known[uid]; ok {
		return false, nil
	}
	n.orphans = append(n.orphans, uid)
	go func() {
		_ = n.pods.Stop(context.WithoutCancel(n.Context()), uid, nil, grace, func(*v1.PodStatus) {})
		n.pods.Forgotten(uid)
	}()
	return true, nil
}

func (n *node) Synced() <-chan struct{} { return n.synced }

func (n *node) CouldHaveRunningContainers(uid types.UID) bool {
	return !n.ShouldPodRuntimeBeRemoved(uid)
}

func (n *node) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.synced:
		return n.known[uid] == nil
	default:
		return false
	}
}

func (n *node) ShouldPodContentBeRemoved(uid types.UID) bool { return n.ShouldPodRuntimeBeRemoved(uid) }

// newPod returns a static pod with one container.
func newPod(name string, policy v1.RestartPolicy) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{"kubernetes.io/config.source": "file"},
		},
		Spec: v1.PodSpec{RestartPolicy: policy, Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
}

// completeRuntime is a CompleteWatcher: the world hints at each event.
type completeRuntime struct {
	*fake.Runtime
	audits *[]time.Time
}

func (completeRuntime) WatchesAll() bool { return true }

func (r completeRuntime) Leftovers(context.Context) ([]runtime.Leftover, error) {
	*r.audits = append(*r.audits, time.Now())
	return nil, nil
}

func (completeRuntime) Collect(context.Context, runtime.Leftover) error { return nil }
