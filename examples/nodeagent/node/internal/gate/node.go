// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/runtime"
)

// nodeNews is the result of one attempt to read the API server's Node.
type nodeNews struct {
	began time.Time
	node  *v1.Node // nil if the read failed
}

// nodeTimeout is the timeout of one attempt.
const nodeTimeout = 10 * time.Second

// follow reads the Node at the beginning, and again whenever a pod is about to be refused because
// of the Node's labels or taints. An unreachable API server delays such a pod by at most
// nodeTimeout.
func (g *Gate) follow(ctx context.Context) {
	if g.opts.Node == nil {
		return
	}
	failed := failurelog.Log{Logger: g.host.Log, Failed: "cannot read the node: pods are admitted by its last known state"}
	for ctx.Err() == nil {
		n := nodeNews{began: time.Now()}
		limited, cancel := context.WithTimeout(ctx, nodeTimeout)
		node, err := g.opts.Node(limited)
		cancel()
		if err == nil {
			n.node = node
		}
		if ctx.Err() == nil && !apierrors.IsNotFound(err) { // the Node may be created soon
			failed.Report(err)
		}
		g.tell(func(all *news) { all.read = &n })
		select {
		case <-g.ask:
		case <-ctx.Done():
		}
	}
}

// mergeNode merges a Node into g.node. The Node supplies labels, taints, and resources missing in
// Options.Allocatable, for example devices. Options.Allocatable takes precedence, because the agent
// measured those amounts.
func (g *Gate) mergeNode(n nodeNews) {
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

// NodeChanged stores the labels, taints and resources of a Node for the next Reconsider. The Node
// may be older than the result of a read, so NodeChanged does not advance asOf.
func (g *Gate) NodeChanged(node *v1.Node) {
	kept := &v1.Node{}
	kept.Labels = maps.Clone(node.Labels)
	kept.Spec.Taints = slices.Clone(node.Spec.Taints)
	kept.Status.Allocatable = node.Status.Allocatable.DeepCopy()
	g.tell(func(n *news) { n.seen = kept })
}

// Shortest and longest pause between two attempts to list the runtime's pods.
const (
	minLookPause = 100 * time.Millisecond
	maxLookPause = 5 * time.Second
)

// listFormerPods lists the pods running at the start of the agent. Pods without requests and ports
// do not wait for the list.
func (g *Gate) listFormerPods(ctx context.Context) {
	for pause := minLookPause; ; pause = min(2*pause, maxLookPause) {
		pods, err := g.host.Runtime.List(ctx, runtime.ListOptions{})
		if err == nil {
			var former []types.UID
			for _, p := range pods {
				if len(p.Running()) > 0 || p.Current() != nil {
					former = append(former, p.UID)
				}
			}
			g.tell(func(n *news) { n.former, n.listed = former, true })
			return
		}
		if retry.Sleep(ctx, pause) != nil { // podsync's tracker logs the error
			return
		}
	}
}
