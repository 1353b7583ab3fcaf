// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// api is the API server as seen by a node: a watch of the node's pods without delay, and the writes
// of the node's agent.
type api struct {
	server *statustest.Server
	supply *supply
	taints []v1.Taint // of the node

	mu   sync.Mutex
	node string // name of the node
	pods map[types.UID]*v1.Pod
}

func newAPI(server *statustest.Server, node string, history *recorder) *api {
	a := &api{server: server, supply: newSupply(podconfig.SourceAPI, history), node: node, pods: make(map[types.UID]*v1.Pod)}
	server.Watch(func(pod *v1.Pod) {
		if a.has(pod) {
			history.stored(pod)
			a.edit(func() { a.look(pod.UID) })
		}
	})
	return a
}

// has reports whether the pod is bound to the node.
func (a *api) has(pod *v1.Pod) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return pod.Spec.NodeName == a.node
}

// joinAs registers a node with a unique name at the server: the wanted name or, for "", the first
// free name.
func joinAs(server *statustest.Server, wanted string) (string, error) {
	if wanted != "" {
		if !server.AddNode(wanted) {
			return "", fmt.Errorf("Options.NodeName: Options.API has a node %q already; give each node a name of its own", wanted)
		}
		return wanted, nil
	}
	name := firstName
	for i := 2; !server.AddNode(name); i++ {
		name = fmt.Sprintf("%s-%d", firstName, i)
	}
	return name, nil
}

// rename gives the node the name that Options.Agent has chosen for its agent.
func (n *Node) rename(name string) error {
	if name == n.name {
		return nil
	}
	if n.api != nil {
		if _, err := joinAs(n.opts.API, name); err != nil {
			return err
		}
		n.api.edit(func() {
			n.opts.API.RemoveNode(n.api.node)
			n.api.node = name
			clear(n.api.pods)
		})
	}
	n.name = name
	return nil
}

// look reads a pod from the server: the pod may have been deleted before its watch event arrives.
func (a *api) look(uid types.UID) {
	if pod := a.server.Get(uid); pod != nil {
		a.pods[uid] = pod
	} else {
		delete(a.pods, uid)
	}
}

func (a *api) edit(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	pods := slices.SortedFunc(maps.Values(a.pods), func(x, y *v1.Pod) int {
		if c := x.CreationTimestamp.Compare(y.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(string(x.UID), string(y.UID))
	})
	a.supply.set(pods)
}

// DeletePod deletes a pod for the node's agent. The watch reports the deletion at once.
func (a *api) DeletePod(ctx context.Context, ref statusmanager.PodRef) error {
	err := a.server.DeletePod(ctx, ref)
	a.edit(func() { a.look(ref.UID) })
	return err
}

// Bind creates a pod on the node's API server, as after a scheduler's decision for this node, and
// returns the stored pod. Bind needs Options.API.
func (n *Node) Bind(pod *v1.Pod) *v1.Pod {
	if n.api == nil {
		n.fatalf("Bind needs Options.API")
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = n.name
	stored := n.opts.API.Create(bound)
	n.Settle()
	return stored
}

// Evict removes a pod from the API server by force, even while its containers run.
func (n *Node) Evict(uid types.UID) {
	n.opts.API.Remove(uid)
	n.api.edit(func() { n.api.look(uid) })
	n.Settle()
}
