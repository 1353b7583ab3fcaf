// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

// node is a consumer like an agent: it runs added pods, and kills pods absent from every source as
// soon as the relevant sources are ready. All its sources run in a single bubble.
type node struct {
	store *podconfig.Store
	queue *podconfig.Queue
	ready *podconfig.Readiness
	says  map[string]chan podconfig.Change
	stop  func() error
	// running are the running pods: sources by full name.
	running map[string]string
}

// startNode runs a node whose sources submit the changes passed to say; all sources are silent at
// first.
func startNode(t *testing.T, seed map[string][]*v1.Pod, sources ...string) *node {
	n := &node{
		store: newStore(t, podconfig.StoreOptions{Seed: seed}), queue: podconfig.NewQueue(),
		ready: podconfig.NewReadiness(sources...), says: map[string]chan podconfig.Change{}, running: map[string]string{},
	}
	for _, u := range n.store.Replay() {
		require.NoError(t, n.queue.Push(t.Context(), u))
	}
	var all []podconfig.Source
	for _, name := range sources {
		says := make(chan podconfig.Change)
		n.says[name] = says
		all = append(all, podconfig.SourceFunc(name, func(ctx context.Context, out podconfig.Sink) error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case c := <-says:
					if err := out.Submit(ctx, c); err != nil {
						return err
					}
				}
			}
		}))
	}
	n.stop = start(t, n.store, n.queue.Push, all...)
	n.handle()
	return n
}

func (n *node) say(source string, c podconfig.Change) {
	n.says[source] <- c
	n.handle()
}

// handle handles the queued updates, and then cleans up each ready source.
func (n *node) handle() {
	synctest.Wait()
	for u, ok := n.queue.Pop(); ok; u, ok = n.queue.Pop() {
		for _, p := range u.Pods {
			n.running[podconfig.FullName(p)] = u.Source
			if u.Op == podconfig.OpRemove {
				delete(n.running, podconfig.FullName(p))
			}
		}
		n.ready.Consumed(u)
	}
	wanted := map[string]bool{}
	for _, p := range n.store.Pods() {
		wanted[podconfig.FullName(p)] = true
	}
	for name, source := range n.running {
		if !wanted[name] && n.ready.Ready(source) {
			delete(n.running, name)
		}
	}
}

func (n *node) runs() []string {
	names := []string{}
	for name := range n.running {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// The kubelet does not kill a removed static pod before it has reached the API server. The new
// version of a control plane's own pod then finds its port taken by the old version forever
// (#88402, #105547, rke2 #3415).
func TestUpstream112814DeadAPIServerKeepsRemovedStaticPodsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, nil, "file", "api")
		n.running["leftover_ns"] = "file" // of an earlier process, found in the runtime
		require.Equal(t, []string{"leftover_ns"}, n.runs(), "nobody knows yet whether a manifest has it")
		n.say("file", podconfig.Snapshot(pod("etcd", "1"), pod("apiserver", "2")))
		require.Equal(t, []string{"apiserver_ns", "etcd_ns"}, n.runs())
		n.say("file", podconfig.Snapshot(pod("apiserver", "3")))
		require.Equal(t, []string{"apiserver_ns"}, n.runs(), "etcd was removed")
		require.False(t, n.ready.AllReady(), "the API server is still down")
		require.NoError(t, n.stop())
	})
}

// An agent with an API source but no server must treat manifests as if it had no API source.
func TestUpstream59275APISourceWithoutServerBlocksManifests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, nil, "file", "api")
		n.running["pod-of-the-server_ns"] = "api"
		n.say("file", podconfig.Snapshot(pod("a", "1")))
		n.say("file", podconfig.Snapshot())
		require.Equal(t, []string{"pod-of-the-server_ns"}, n.runs(), "what only the server knows is not touched")
		n.ready.Drop("api")
		require.True(t, n.ready.AllReady(), "or the embedder gives the source up")
		require.NoError(t, n.stop())
	})
}

// A URL that never answers blocks the kubelet's housekeeping of all pods.
func TestUpstream15122UnseenURLBlocksHousekeeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, nil, "file", "http", "api")
		n.say("api", podconfig.Snapshot(pod("a", "1")))
		n.say("api", podconfig.Snapshot())
		require.Empty(t, n.runs())
		require.True(t, n.ready.Ready("api"))
		require.False(t, n.ready.Ready("http"))
		n.say("http", podconfig.Snapshot())
		require.True(t, n.ready.Ready("http"), "an empty answer is an answer")
		require.NoError(t, n.stop())
	})
}

// A node that boots without its API server runs the same pods as before. Pods deleted by the server
// meanwhile end when the server reports the deletion, not earlier.
func TestUpstream489BootWithoutAPIServerForgetsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, map[string][]*v1.Pod{"api": {pod("a", "1"), pod("b", "2")}}, "file", "api")
		require.Equal(t, []string{"a_ns", "b_ns"}, n.runs())
		n.say("file", podconfig.Snapshot(pod("static", "3")))
		require.Equal(t, []string{"a_ns", "b_ns", "static_ns"}, n.runs())
		require.False(t, n.ready.Ready("api"), "a seed does not speak for its source")
		require.False(t, n.store.Seen("api"))
		n.say("api", podconfig.Upsert(pod("c", "4")))
		require.False(t, n.ready.Ready("api"), "nor does a delta")
		n.say("api", podconfig.Snapshot(pod("b", "2"), pod("c", "4")))
		require.Equal(t, []string{"b_ns", "c_ns", "static_ns"}, n.runs())
		require.True(t, n.ready.AllReady())
		require.NoError(t, n.stop())
	})
}
