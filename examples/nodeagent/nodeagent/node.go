// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
)

// nodeNews is one attempt to read the API server's Node.
type nodeNews struct {
	began time.Time
	node  *v1.Node // nil: it could not be read
}

// nodeTimeout is how long one attempt may take.
const nodeTimeout = 10 * time.Second

// follows reports whether there is an API server's Node at all.
func (g *gate) follows() bool { return g.agent.opts.Cluster.Node != nil }

// readNode asks for the Node. Nobody waits for it.
func (g *gate) readNode() {
	select {
	case g.ask <- struct{}{}:
	default:
	}
}

// follow reads the Node at the beginning, and whenever somebody is about to be
// refused for what it said last. An API server that is away holds up nobody for
// longer than nodeTimeout.
func (g *gate) follow(ctx context.Context) {
	if !g.follows() {
		return
	}
	failing := false
	for ctx.Err() == nil {
		n := nodeNews{began: time.Now()}
		limited, cancel := context.WithTimeout(ctx, nodeTimeout)
		node, err := g.agent.opts.Cluster.Node(limited)
		cancel()
		if err == nil {
			n.node = node
		} else if !failing && ctx.Err() == nil && !apierrors.IsNotFound(err) { // it may be about to be made
			g.agent.log.Warn("cannot read the node: pods are admitted by what was last known of it", zap.Error(err))
		}
		failing = err != nil
		select {
		case g.news <- n:
		case <-ctx.Done():
			return
		}
		select {
		case <-g.ask:
		case <-ctx.Done():
		}
	}
}

// heard takes in what follow found. What Options say of resources is measured
// here and counts; the Node adds those that are not, such as devices that somebody
// advertised, its labels and its taints.
func (g *gate) heard(n nodeNews) {
	g.asOf = n.began
	if n.node == nil {
		return
	}
	merged := g.base
	merged.Labels = maps.Clone(g.base.Labels)
	maps.Copy(merged.Labels, n.node.Labels)
	merged.Labels[v1.LabelOSStable] = g.base.OS
	merged.Taints = n.node.Spec.Taints
	if len(g.base.Allocatable)+len(n.node.Status.Allocatable) > 0 {
		merged.Allocatable = make(v1.ResourceList)
		maps.Copy(merged.Allocatable, n.node.Status.Allocatable)
		maps.Copy(merged.Allocatable, g.base.Allocatable)
	}
	g.node = merged
}

// see takes note of how somebody says that the Node is. That may be older than
// what a reading finds, so it does not count as one.
func (g *gate) see(node *v1.Node) {
	kept := &v1.Node{}
	kept.Labels = maps.Clone(node.Labels)
	kept.Spec.Taints = slices.Clone(node.Spec.Taints)
	kept.Status.Allocatable = node.Status.Allocatable.DeepCopy()
	g.mu.Lock()
	g.mu.seen = kept
	g.mu.Unlock()
	g.poke()
}

// takeSeen returns what see was last told, nil for nothing since.
func (g *gate) takeSeen() *v1.Node {
	g.mu.Lock()
	defer g.mu.Unlock()
	node := g.mu.seen
	g.mu.seen = nil
	return node
}

// How long to wait until the runtime is asked again what it has.
const (
	minLookPause = 100 * time.Millisecond
	maxLookPause = 5 * time.Second
)

// lookBack finds out what ran when this agent began. Pods that ask for nothing do
// not wait for it.
func (g *gate) lookBack(ctx context.Context) {
	for pause := minLookPause; ; pause = min(2*pause, maxLookPause) {
		pods, err := g.agent.runtime.List(ctx, runtime.ListOptions{})
		if err == nil {
			former := make(map[types.UID]bool, len(pods))
			for _, p := range pods {
				if len(p.Running()) > 0 || p.Current() != nil {
					former[p.UID] = true
				}
			}
			select {
			case g.memory <- former:
			case <-ctx.Done():
			}
			return
		}
		select {
		case <-time.After(pause): // the tracker says why
		case <-ctx.Done():
			return
		}
	}
}

// remember takes in what lookBack found, but for pods that this agent started
// meanwhile.
func (g *gate) remember(former map[types.UID]bool) {
	maps.DeleteFunc(former, func(uid types.UID, _ bool) bool { return g.places[uid] != nil })
	g.former, g.known = former, true
}
