// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"cmp"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent/admission"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// gate is what the loop knows about who may come in. What is not guarded is the
// loop's own.
type gate struct {
	agent *Agent
	base  admission.Node // as Options say
	node  admission.Node // and what the API server's Node adds
	asOf  time.Time      // of the last attempt to read that one

	former map[types.UID]bool      // what ran when this agent began
	known  bool                    // whether former is
	places map[types.UID]*place    // of the pods that are admitted and not over
	held   map[types.UID]heldPod   // neither admitted nor refused yet
	memory chan map[types.UID]bool // former, once
	news   chan nodeNews
	ask    chan struct{} // capacity 1: read the Node
	room   chan struct{} // capacity 1: a pod has ended

	mu struct {
		sync.Mutex
		ended   map[types.UID]bool
		pending map[types.UID]admission.Pending // resizes that wait
		seen    *v1.Node                        // what the agent was told of it since
	}
}

// place is what an admitted pod takes.
type place struct {
	run     *v1.Pod           // with the resources that it has
	demand  *admission.Demand // of run
	pending *admission.Pending
	since   time.Time // of pending
}

// heldPod waits for something that its admission hangs on.
type heldPod struct {
	since time.Time
}

func newGate(a *Agent) *gate {
	labels := map[string]string{v1.LabelHostname: a.opts.NodeName, v1.LabelOSStable: goruntime.GOOS, v1.LabelArchStable: goruntime.GOARCH}
	maps.Copy(labels, a.opts.NodeLabels)
	g := &gate{
		agent:  a,
		places: make(map[types.UID]*place),
		held:   make(map[types.UID]heldPod),
		memory: make(chan map[types.UID]bool),
		news:   make(chan nodeNews),
		ask:    make(chan struct{}, 1),
		room:   make(chan struct{}, 1),
		base: admission.Node{
			Name:          a.opts.NodeName,
			OS:            labels[v1.LabelOSStable],
			Labels:        labels,
			Taints:        a.opts.NodeTaints,
			Allocatable:   a.opts.Allocatable,
			UnsafeSysctls: a.opts.UnsafeSysctls,
		},
	}
	g.node = g.base
	g.mu.ended = make(map[types.UID]bool)
	g.mu.pending = make(map[types.UID]admission.Pending)
	return g
}

// active is what the admitted pods take.
func (g *gate) active() []*admission.Demand {
	all := make([]*admission.Demand, 0, len(g.places))
	for _, p := range g.places {
		all = append(all, p.demand)
	}
	return all
}

// staying is active without what is ending anyway.
func (g *gate) staying() []*admission.Demand {
	return slices.DeleteFunc(g.active(), func(d *admission.Demand) bool {
		return g.agent.workers.IsPodTerminationRequested(d.Pod.UID)
	})
}

// take gives a pod its place. One that this agent found running keeps the
// resources that it had.
func (g *gate) take(pod *v1.Pod) {
	delete(g.held, pod.UID)
	if g.places[pod.UID] != nil {
		g.resize(pod)
		return
	}
	run := pod
	if g.ran(pod) {
		run = admission.Allocated(pod)
	}
	g.places[pod.UID] = &place{run: run, demand: admission.DemandOf(run)}
	g.setPending(pod.UID, nil)
	if run != pod {
		g.resize(pod)
	}
}

// beside leaves out a static pod that has the name of this one: that one makes way
// for it, and this one waits for that.
func (g *gate) beside(pod *v1.Pod, active []*admission.Demand) []*admission.Demand {
	if !podconfig.IsStatic(pod) {
		return active
	}
	return slices.DeleteFunc(active, func(d *admission.Demand) bool {
		return podconfig.IsStatic(d.Pod) && podconfig.FullName(d.Pod) == podconfig.FullName(pod)
	})
}

// leave takes a pod's place away.
func (g *gate) leave(uid types.UID) {
	delete(g.held, uid)
	delete(g.former, uid)
	delete(g.places, uid)
	g.setPending(uid, nil)
	g.poke()
}

// ran reports whether a pod was admitted before: this agent found something of it
// running, or the API server says that it had started.
func (g *gate) ran(pod *v1.Pod) bool {
	return g.former[pod.UID] || pod.Status.StartTime != nil && !isOver(pod.Status.Phase)
}

func isOver(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

// holds reports whether it is still to be decided about a pod.
func (g *gate) holds(uid types.UID) bool {
	_, ok := g.held[uid]
	return ok
}

// order sorts pods as they are admitted: what ran before, what is older, and by
// name. The slice is the caller's.
func (g *gate) order(pods []*v1.Pod) []*v1.Pod {
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int {
		if x, y := g.ran(a), g.ran(b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return pods
}

// end is told by the workers that nothing of a pod runs any more.
func (g *gate) end(uid types.UID) {
	g.mu.Lock()
	g.mu.ended[uid] = true
	g.mu.Unlock()
	g.poke()
}

// takeEnded returns whose end has been told since it was last called.
func (g *gate) takeEnded() map[types.UID]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	ended := g.mu.ended
	g.mu.ended = make(map[types.UID]bool)
	return ended
}

// setPending says why a pod's resize waits; nil: none does.
func (g *gate) setPending(uid types.UID, p *admission.Pending) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p == nil {
		delete(g.mu.pending, uid)
		return
	}
	g.mu.pending[uid] = *p
}

// resizePending is for the status of a pod.
func (g *gate) resizePending(uid types.UID) *podstatus.ResizePending {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.mu.pending[uid]
	if !ok {
		return nil
	}
	return &podstatus.ResizePending{Reason: p.Reason, Message: p.Message}
}

// poke has the loop look whether there is room for somebody.
func (g *gate) poke() {
	select {
	case g.room <- struct{}{}:
	default:
	}
}
