// SPDX-License-Identifier: Apache-2.0

// Package gate admits pods as the kubelet does: by labels, taints, ports and resources of the node,
// with preemption for critical pods, and with in-place resizes that wait for free resources.
// Package admission contains the rules.
package gate

import (
	"context"
	"maps"
	goruntime "runtime"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/runtime/podstatus"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// Options configure a Gate.
type Options struct {
	// NodeName is the name of this node. Required.
	NodeName string
	// Labels are labels of the node, in addition to hostname, operating system and architecture.
	// Defaults to none.
	Labels map[string]string
	// Taints are the node's taints until Node has been read. Defaults to none.
	Taints []v1.Taint
	// Allocatable is the sum of resources that pods may request; see package admission. Defaults to
	// the allocatable resources of Node, and without a Node to unlimited.
	Allocatable v1.ResourceList
	// UnsafeSysctls are the names of sysctls that pods may set in addition to the safe sysctls.
	// Defaults to none.
	UnsafeSysctls []string
	// Node reads the API server's object of this node. Defaults to nil: no Node object is used.
	Node func(ctx context.Context) (*v1.Node, error)
	// Admit returns additional reasons to refuse a new pod, and the event for which an admissible pod
	// waits. Required.
	Admit func(pod *v1.Pod) (wait string, failures []admission.Failure)
	// Assigned reports whether Admit counts an extended resource. Required.
	Assigned func(v1.ResourceName) bool
	// Resized is called with each decision about the resources of a pod's new spec: pending is nil if
	// the pod is given them, and has the reason if the resize waits. Required.
	Resized func(pod *v1.Pod, pending *admission.Pending)
}

// Gate implements feature.Gate. Only the node's loop uses the fields outside mu.
type Gate struct {
	host *feature.Host
	opts Options
	base admission.Node // from Options
	node admission.Node // base, merged with the API server's Node
	asOf time.Time      // start of the last attempt to read the Node

	known   bool                              // whether former is complete
	former  *feature.Slot[bool]               // pods that ran when this agent began
	places  *feature.Slot[*place]             // pods that are admitted and not over
	used    *admission.Usage                  // sum of the demands of places
	held    *feature.Slot[time.Time]          // pods that wait for admission, since this time
	pending *feature.Slot[*admission.Pending] // the reason why a resize waits

	ask    signal.Signal // requests a read of the Node
	wanted signal.Signal // Changed: the loop should call Reconsider

	mu struct {
		sync.Mutex
		news
	}
}

// news collects facts for the next Reconsider.
type news struct {
	listed bool        // former is complete
	former []types.UID // pods that ran when this agent began
	read   *nodeNews   // the last attempt to read the Node
	seen   *v1.Node    // the last Node passed to NodeChanged
	ended  []types.UID // pods whose containers have stopped
}

// place is the reservation of an admitted pod.
type place struct {
	demand *admission.Demand // demand of the version that runs, with the granted resources
	since  time.Time         // since when a resize waits
}

// New returns the Gate of a host.
func New(h *feature.Host, o Options) *Gate {
	labels := map[string]string{v1.LabelHostname: o.NodeName, v1.LabelOSStable: goruntime.GOOS, v1.LabelArchStable: goruntime.GOARCH}
	maps.Copy(labels, o.Labels)
	g := &Gate{
		host:    h,
		opts:    o,
		former:  feature.NewSlot[bool](h.Table),
		places:  feature.NewSlot[*place](h.Table),
		used:    admission.UsageOf(),
		held:    feature.NewSlot[time.Time](h.Table),
		pending: feature.NewSlot[*admission.Pending](h.Table),
		ask:     signal.New(),
		wanted:  signal.New(),
		base: admission.Node{
			Name:          o.NodeName,
			OS:            labels[v1.LabelOSStable],
			Labels:        labels,
			Taints:        o.Taints,
			Allocatable:   o.Allocatable,
			UnsafeSysctls: o.UnsafeSysctls,
			Assigned:      o.Assigned,
		},
	}
	g.node = g.base
	return g
}

// Feature implements feature.Gate.
func (g *Gate) Feature() feature.Feature {
	return feature.Feature{
		Name: "gate",
		Hook: podsync.Hook{Input: func(pod *v1.Pod, in *podstatus.Input) {
			if p := g.pending.Get(pod.UID); p != nil && in.Stage == podstatus.StageSync {
				in.ResizePending = &podstatus.ResizePending{Reason: p.Reason, Message: p.Message}
			}
		}},
		Stopped: func(uid types.UID) {
			g.tell(func(n *news) { n.ended = append(n.ended, uid) })
		},
		// Housekeeping starts pods again, and a held pod may have to preempt them.
		Housekeep: func(func(types.UID) bool) { g.wanted.Notify() },
		Run: func(ctx context.Context) error {
			var wg sync.WaitGroup
			wg.Go(func() { g.listFormerPods(ctx) })
			wg.Go(func() { g.follow(ctx) })
			wg.Wait()
			return nil
		},
	}
}

// Changed implements feature.Gate.
func (g *Gate) Changed() <-chan struct{} { return g.wanted }

// tell adds to the news and wakes the loop.
func (g *Gate) tell(add func(*news)) {
	g.mu.Lock()
	add(&g.mu.news)
	g.mu.Unlock()
	g.wanted.Notify()
}

// Reconsider implements feature.Gate.
func (g *Gate) Reconsider() (waiting []*v1.Pod) {
	g.mu.Lock()
	n := g.mu.news
	g.mu.news = news{}
	g.mu.Unlock()
	g.known = g.known || n.listed
	for _, uid := range n.former {
		if g.places.Get(uid) == nil { // otherwise this agent has started the pod meanwhile
			g.former.Set(uid, true)
		}
	}
	if n.read != nil {
		g.mergeNode(*n.read)
	}
	if n.seen != nil {
		g.mergeNode(nodeNews{began: g.asOf, node: n.seen})
	}
	for _, uid := range n.ended {
		if !g.restarts(uid) {
			g.vacate(uid)
		}
	}
	for uid := range g.held.All() {
		if pod, ok := g.host.Desired(uid); ok {
			waiting = append(waiting, pod)
		} else {
			g.held.Drop(uid)
		}
	}
	return waiting
}
