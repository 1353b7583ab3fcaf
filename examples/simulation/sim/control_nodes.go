// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
)

// Durations of the controllers of Kubernetes 1.36.
const (
	defaultGrace       = 50 * time.Second
	defaultToleration  = 300 * time.Second
	podGCEvery         = 20 * time.Second
	podGCQuarantine    = 40 * time.Second
	lifecycleEvery     = 5 * time.Second
	lifecycleTaintWait = 10 * time.Second // a node per 10 s and zone
)

// NodeLifecycle is a Controller that taints lost nodes and evicts their pods: after the grace period
// the node gets the taint unreachable, and each pod is evicted after its tolerationSeconds, which
// default to 300 s. A simulation without zones has a single queue of taints.
type NodeLifecycle struct {
	// Grace is the age of a heartbeat after which a node is lost. Defaults to 50 s.
	Grace time.Duration
	// Toleration is the tolerationSeconds of pods without a toleration of the taint unreachable.
	// Defaults to 300 s. Negative: evicted at once.
	Toleration time.Duration

	epochs   map[*Node]int
	nextSlot time.Duration
}

// Start implements Controller.
func (l *NodeLifecycle) Start(*Control) {
	if l.Grace == 0 {
		l.Grace = defaultGrace
	}
	if l.Toleration == 0 {
		l.Toleration = defaultToleration
	}
	l.epochs = map[*Node]int{}
}

// Handle implements Controller.
func (l *NodeLifecycle) Handle(c *Control, e Event) {
	switch e.Kind {
	case NodeLost:
		l.epochs[e.Node]++
		epoch := l.epochs[e.Node]
		// The monitor looks every 5 s, and taints at most one node in 10 s.
		found := roundUp(c.Now()+l.Grace, lifecycleEvery)
		at := max(found, l.nextSlot)
		l.nextSlot = at + lifecycleTaintWait
		c.After(at-c.Now(), func() {
			if l.epochs[e.Node] == epoch {
				l.taint(c, e.Node, epoch)
			}
		})
	case NodeBack:
		l.epochs[e.Node]++
		if rest := without(e.Node.Taints); len(rest) != len(e.Node.Taints) {
			c.SetTaints(e.Node, rest)
		}
	}
}

// taint marks a node as unreachable, and plans the evictions.
func (l *NodeLifecycle) taint(c *Control, n *Node, epoch int) {
	c.SetTaints(n, append(without(n.Taints),
		v1.Taint{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoSchedule},
		v1.Taint{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute}))
	for _, p := range slices.Clone(n.Pods) {
		wait, ever := l.tolerates(p)
		if !ever {
			continue
		}
		c.After(wait, func() {
			if l.epochs[n] == epoch && p.Node == n {
				c.Evict(p, "DeletionByTaintManager")
			}
		})
	}
}

// tolerates returns how long a pod stays on an unreachable node; false: for ever.
func (l *NodeLifecycle) tolerates(p *Pod) (time.Duration, bool) {
	taint := v1.Taint{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute}
	wait, found := Never, false
	for i := range p.Shape.Template.Spec.Tolerations {
		t := &p.Shape.Template.Spec.Tolerations[i]
		if !admission.Tolerates(&v1.Pod{Spec: v1.PodSpec{Tolerations: []v1.Toleration{*t}}}, &taint) {
			continue
		}
		found = true
		if t.TolerationSeconds != nil {
			wait = min(wait, time.Duration(max(0, *t.TolerationSeconds))*time.Second)
		}
	}
	if !found {
		return max(0, l.Toleration), true
	}
	return wait, wait != Never
}

// without returns the taints that NodeLifecycle has not set.
func without(taints []v1.Taint) []v1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t v1.Taint) bool { return t.Key == v1.TaintNodeUnreachable })
}

// PodGC is a Controller that removes the pods of nodes that are lost for long, as the pod garbage
// collector does after the deletion of a Node object: it looks every 20 s, and waits 40 s.
type PodGC struct {
	// DeleteNodeAfter is the time after which the object of a lost node is deleted. Required.
	DeleteNodeAfter time.Duration

	lost map[*Node]int
}

// Start implements Controller.
func (g *PodGC) Start(*Control) { g.lost = map[*Node]int{} }

// Handle implements Controller.
func (g *PodGC) Handle(c *Control, e Event) {
	if e.Kind != NodeLost && e.Kind != NodeBack {
		return
	}
	g.lost[e.Node]++
	if e.Kind == NodeBack {
		return
	}
	epoch := g.lost[e.Node]
	at := roundUp(c.Now()+g.DeleteNodeAfter, podGCEvery) + podGCQuarantine
	c.After(at-c.Now(), func() {
		if g.lost[e.Node] != epoch {
			return
		}
		for _, p := range slices.Clone(e.Node.Pods) {
			c.Remove(p, "DeletionByPodGC")
		}
	})
}

// roundUp returns the first multiple of step at or after d.
func roundUp(d, step time.Duration) time.Duration { return (d + step - 1).Truncate(step) }
