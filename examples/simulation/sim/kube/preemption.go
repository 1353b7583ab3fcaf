// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Preemption evicts pods of lower priority (DefaultPreemption). Each candidate node is tried on the
// Snapshot itself, and the trial is rolled back.
type Preemption struct {
	// Budgets are the disruption budgets of the workloads.
	Budgets []Budget
}

// Budget is a PodDisruptionBudget: how many of the selected pods may be evicted.
type Budget struct {
	Namespace string
	Selector  labels.Selector
	Allowed   int
}

// Name implements sim.Plugin.
func (Preemption) Name() string { return "DefaultPreemption" }

// candidate is a node with the victims of a trial.
type candidate struct {
	node       *sim.Node
	victims    []*sim.Pod // most important first
	violations int        // of budgets
}

// PostFilter implements sim.PostFilter.
func (p Preemption) PostFilter(c *sim.Cycle, failed []*sim.Status) sim.PostFilterResult {
	none := sim.PostFilterResult{Status: sim.NewStatus(sim.Unschedulable, "preemption is not helpful for scheduling")}
	policy := c.Pod.Shape.Template.Spec.PreemptionPolicy
	if policy != nil && *policy == v1.PreemptNever {
		return none
	}
	if waits(c.Pod, failed) {
		return sim.PostFilterResult{Status: sim.NewStatus(sim.Unschedulable, "not eligible due to a terminating pod on the nominated node")}
	}
	var nodes []*sim.Node
	for i, status := range failed {
		if status != nil && status.Code == sim.Unschedulable && mayHelp(c, c.Snapshot.Nodes()[i]) {
			nodes = append(nodes, c.Snapshot.Nodes()[i])
		}
	}
	if len(nodes) == 0 {
		return none
	}
	found := p.candidates(c, nodes)
	if len(found) == 0 {
		return none
	}
	best := slices.MinFunc(found, better)
	return sim.PostFilterResult{Nominated: best.node, Victims: best.victims}
}

// waits reports whether a pod of lower priority still terminates on the pod's nominated node, and
// the pod may fit there afterwards.
func waits(p *sim.Pod, failed []*sim.Status) bool {
	n := p.Nominated()
	if n == nil || failed[n.Index()] != nil && failed[n.Index()].Code == sim.Unresolvable {
		return false
	}
	return slices.ContainsFunc(n.Pods, func(o *sim.Pod) bool { return o.Evicting() && o.Shape.Priority < p.Shape.Priority })
}

// mayHelp reports whether the node has a pod of lower priority.
func mayHelp(c *sim.Cycle, n *sim.Node) bool {
	return slices.ContainsFunc(n.Pods, func(p *sim.Pod) bool { return p.Shape.Priority < c.Pod.Shape.Priority })
}

// candidates tries nodes from a random offset on, until enough candidates are found.
func (p Preemption) candidates(c *sim.Cycle, nodes []*sim.Node) (found []candidate) {
	all := len(c.Snapshot.Nodes())
	want := min(max(all/10, 100), all)
	offset := c.Rand.IntN(len(nodes))
	harmless := 0
	for i := range nodes {
		n := nodes[(offset+i)%len(nodes)]
		candidate, ok := p.try(c, n)
		if !ok {
			continue
		}
		found = append(found, candidate)
		if candidate.violations == 0 {
			harmless++
		}
		if harmless > 0 && len(found) >= want {
			break
		}
	}
	return found
}

// try removes all pods of lower priority from the node, and puts back as many as possible.
func (p Preemption) try(c *sim.Cycle, n *sim.Node) (candidate, bool) {
	mark := c.Snapshot.Begin()
	defer c.Snapshot.Rollback(mark)
	var lower []*sim.Pod
	for _, pod := range n.Pods {
		if pod.Shape.Priority < c.Pod.Shape.Priority {
			lower = append(lower, pod)
		}
	}
	devices := make([][]int, len(lower))
	slices.SortFunc(lower, important)
	for i, pod := range lower {
		devices[i] = pod.Devices
		c.Snapshot.Forget(pod)
	}
	if c.Fits(n) != nil {
		return candidate{}, false
	}
	violating := p.violating(lower)
	out := candidate{node: n}
	for _, first := range []bool{true, false} {
		for i, pod := range lower {
			if violating[i] != first {
				continue
			}
			c.Snapshot.Assume(pod, n, devices[i])
			if c.Fits(n) == nil {
				continue // reprieved
			}
			c.Snapshot.Forget(pod)
			out.victims = append(out.victims, pod)
			if first {
				out.violations++
			}
		}
	}
	slices.SortFunc(out.victims, important)
	return out, len(out.victims) > 0
}

// violating reports for each pod whether its eviction would exceed a budget, if all pods before it
// are evicted.
func (p Preemption) violating(pods []*sim.Pod) []bool {
	left := make([]int, len(p.Budgets))
	for i, b := range p.Budgets {
		left[i] = b.Allowed
	}
	out := make([]bool, len(pods))
	for k, pod := range pods {
		t := pod.Shape.Template
		for i, b := range p.Budgets {
			if b.Namespace == t.Namespace && !b.Selector.Empty() && b.Selector.Matches(labels.Set(t.Labels)) {
				left[i]--
				out[k] = out[k] || left[i] < 0
			}
		}
	}
	return out
}

// important sorts by priority, highest first, then by start, earliest first.
func important(a, b *sim.Pod) int {
	return cmp.Or(cmp.Compare(b.Shape.Priority, a.Shape.Priority), cmp.Compare(a.Started, b.Started), cmp.Compare(a.UID, b.UID))
}

// better compares candidates: fewer violations, a lower highest priority, a lower sum of priorities,
// fewer victims, a later start of the earliest of the most important victims.
func better(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(a.violations, b.violations),
		cmp.Compare(a.victims[0].Shape.Priority, b.victims[0].Shape.Priority),
		cmp.Compare(a.sum(), b.sum()),
		cmp.Compare(len(a.victims), len(b.victims)),
		cmp.Compare(b.victims[0].Started, a.victims[0].Started),
	)
}

// sum adds the priorities, made positive.
func (c candidate) sum() (sum int64) {
	for _, pod := range c.victims {
		sum += int64(pod.Shape.Priority) + 1<<31
	}
	return sum
}
