// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// api is what a node sees of an API server: a watch of its pods that is never
// late, and the writes of its agent.
type api struct {
	statusmanager.Patcher
	server *statustest.Server
	node   string

	mu      sync.Mutex
	pods    map[types.UID]*v1.Pod
	changed chan struct{}
}

func newAPI(server *statustest.Server, node string) *api {
	a := &api{Patcher: server, server: server, node: node, pods: make(map[types.UID]*v1.Pod), changed: make(chan struct{}, 1)}
	server.Watch(func(pod *v1.Pod) {
		if pod.Spec.NodeName == node {
			a.edit(func() { a.pods[pod.UID] = pod })
		}
	})
	return a
}

func (a *api) edit(f func()) {
	a.mu.Lock()
	f()
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// DeletePod implements statusmanager.Patcher.
func (a *api) DeletePod(ctx context.Context, ref statusmanager.PodRef) error {
	err := a.Patcher.DeletePod(ctx, ref)
	if a.server.Get(ref.UID) == nil {
		a.edit(func() { delete(a.pods, ref.UID) })
	}
	return err
}

// run is the source of the node's pods.
func (a *api) run(ctx context.Context, out podconfig.Sink) error {
	for {
		a.mu.Lock()
		pods := slices.Collect(maps.Values(a.pods))
		a.mu.Unlock()
		slices.SortFunc(pods, func(x, y *v1.Pod) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
		if err := out.Submit(ctx, podconfig.Snapshot(pods...)); err != nil {
			return err
		}
		select {
		case <-a.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Bind creates a pod on the node's API server, as if a scheduler had chosen this
// node for it, and returns what is stored. It needs Options.API.
func (n *Node) Bind(pod *v1.Pod) *v1.Pod {
	n.t.Helper()
	if n.api == nil {
		n.t.Fatal("nodetest: Bind needs Options.API")
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = nodeName
	stored := n.opts.API.Create(bound)
	n.Settle()
	return stored
}

// Evict removes a pod from the API server by force, whatever runs of it.
func (n *Node) Evict(uid types.UID) {
	n.t.Helper()
	n.opts.API.Remove(uid)
	n.api.edit(func() { delete(n.api.pods, uid) })
	n.Settle()
}
