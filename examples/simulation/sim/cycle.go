// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"time"
)

// Cycle is the attempt to place a single pod.
type Cycle struct {
	Pod      *Pod
	Snapshot *Snapshot
	// Rand is the scheduler's source of random numbers, from Options.Seed.
	Rand *rand.Rand
	Now  time.Duration

	scheduler *Scheduler
	class     *class
	state     map[string]any
	skipped   uint64  // non-local filters whose PreFilter said Skip
	failure   *Status // of Fail
	allowed   []*Pod
	rejected  []*Pod
}

// Waiting returns the pods that wait for Permit, in the order of their decisions.
func (c *Cycle) Waiting() []*Pod {
	if c.scheduler.waiting == nil {
		return nil
	}
	return c.scheduler.waiting()
}

// Allow binds a pod that waits for Permit, after the present call of a Reserve, Permit or PostFilter
// plug-in.
func (c *Cycle) Allow(p *Pod) { c.allowed = append(c.allowed, p) }

// Reject refuses a pod that waits for Permit, after the present call of a plug-in.
func (c *Cycle) Reject(p *Pod) { c.rejected = append(c.rejected, p) }

// Fail ends the cycle with an error, after the present call: the pod is tried again after a back-off.
// A plug-in calls Fail in a method without a Status as result. The first call counts.
func (c *Cycle) Fail(reason string) {
	if c.failure == nil {
		c.failure = NewStatus(Error, reason)
	}
}

// Nominated returns the pods that wait for room on the node. The caller does not write to the slice.
func (c *Cycle) Nominated(n *Node) []*Pod { return c.scheduler.nominated[n] }

// SetState keeps a value of a plug-in until the end of the cycle.
func (c *Cycle) SetState(plugin string, value any) {
	if c.state == nil {
		c.state = make(map[string]any)
	}
	c.state[plugin] = value
}

// State returns the value of SetState, or nil.
func (c *Cycle) State(plugin string) any { return c.state[plugin] }

// Decision is the outcome of a cycle.
type Decision struct {
	Node    *Node // nil: the pod does not fit
	Devices []int
	// Feasible and Evaluated are numbers of nodes.
	Feasible, Evaluated int
	Status              *Status // of a pod that does not fit
	Post                PostFilterResult

	rejectors uint64 // plug-ins that refused nodes, by their index in Profile.Filter
	cycle     *Cycle
}

// Scheduler decides about pods, a single pod at a time. It has neither a queue nor a clock, and does
// not change the Snapshot.
type Scheduler struct {
	snapshot  *Snapshot
	profile   Profile
	rand      *rand.Rand
	start     int           // first node of the next search
	waiting   func() []*Pod // nil: none
	classes   map[*Shape]*class
	order     []*Shape // of classes, oldest first
	nominated map[*Node][]*Pod

	localFilter, localScore []bool
	allLocal                bool // all scores are local and need no normalization
	feasible                []*Node
	totals, scores          []int64
}

// NewScheduler returns a Scheduler for the nodes of a Snapshot.
func NewScheduler(snapshot *Snapshot, profile Profile, random *rand.Rand) (*Scheduler, error) {
	profile, err := profile.validate()
	if err != nil {
		return nil, err
	}
	d := &Scheduler{
		snapshot: snapshot, profile: profile, rand: random, allLocal: true,
		classes: map[*Shape]*class{}, nominated: map[*Node][]*Pod{},
	}
	for _, f := range profile.Filter {
		_, local := f.(Local)
		d.localFilter = append(d.localFilter, local)
	}
	for _, w := range profile.Score {
		_, local := w.Score.(Local)
		d.localScore = append(d.localScore, local)
		_, normal := w.Score.(Normalizer)
		d.allLocal = d.allLocal && local && !normal
	}
	return d, nil
}

// Decide looks for a node. The pod is not assumed. The order of the calls is that of kube-scheduler
// 1.36.
func (d *Scheduler) Decide(p *Pod, now time.Duration) Decision {
	if len(d.snapshot.nodes) == 0 {
		return Decision{Status: NewStatus(Unresolvable, "no nodes available to schedule pods")}
	}
	c := &Cycle{Pod: p, Snapshot: d.snapshot, Rand: d.rand, Now: now, scheduler: d, class: d.classOf(p)}
	found := d.decide(c)
	if c.failure != nil {
		found = Decision{Status: c.failure}
	}
	found.cycle = c
	return found
}

// decide calls the plug-ins. The caller looks at Cycle.failure first.
func (d *Scheduler) decide(c *Cycle) Decision {
	names, rejected := d.preFilter(c)
	switch {
	case rejected.Status.code() == Error:
		return rejected
	case rejected.Status != nil:
		return d.postFilter(c, rejected, nil)
	}
	if n := c.Pod.queued.nominated; n != nil && (names == nil || names[n.Name]) && c.Fits(n) == nil {
		return Decision{Node: n, Devices: d.devices(c, n), Feasible: 1, Evaluated: 1}
	}
	found := d.filter(c, names)
	if c.failure != nil {
		return found
	}
	switch len(d.feasible) {
	case 0:
		found.Status = NewStatus(Unschedulable)
		return d.postFilter(c, found, names)
	case 1:
		found.Node = d.feasible[0]
	default:
		best, status := d.pick(c)
		if status != nil {
			found.Status = status
			return found
		}
		found.Node = d.feasible[best]
	}
	found.Devices = d.devices(c, found.Node)
	return found
}

func (d *Scheduler) devices(c *Cycle, n *Node) []int {
	if c.Pod.Shape.GPU.Count == 0 {
		return nil
	}
	return d.profile.Devices(c, n)
}

// preFilter calls the PreFilter plug-ins that are not local. The result has the set of permitted
// nodes, nil for all.
func (d *Scheduler) preFilter(c *Cycle) (map[string]bool, Decision) {
	allowed, refused := c.class.names, c.class.refused
	for _, plugin := range d.profile.PreFilter {
		if _, local := plugin.(Local); local || refused.Status.code() == Unresolvable || refused.Status.code() == Error {
			continue
		}
		names, status := plugin.PreFilter(c)
		switch status.code() {
		case Success:
			allowed = intersect(allowed, names)
		case Skip:
			c.skipped |= d.bit(plugin)
		default:
			refused.Status = status
			refused.rejectors |= d.bit(plugin)
		}
	}
	if refused.Status == nil && allowed != nil && len(allowed) == 0 {
		refused.Status = NewStatus(Unresolvable, "no node satisfies the plug-ins simultaneously")
	}
	return allowed, refused
}

// bit returns the mask of the Filter with the plug-in's name, or 0.
func (d *Scheduler) bit(plugin Plugin) uint64 {
	for i, f := range d.profile.Filter {
		if f.Name() == plugin.Name() {
			return 1 << i
		}
	}
	return 0
}

// intersect returns the names in the set and in the list. nil means all names.
func intersect(set map[string]bool, list []string) map[string]bool {
	if list == nil {
		return set
	}
	out := make(map[string]bool, len(list))
	for _, name := range list {
		if set == nil || set[name] {
			out[name] = true
		}
	}
	return out
}

// filter collects feasible nodes, up to the size of the sample.
func (d *Scheduler) filter(c *Cycle, names map[string]bool) Decision {
	d.feasible = d.feasible[:0]
	nodes := d.snapshot.nodes
	candidates := len(nodes)
	if names != nil {
		candidates = len(names)
	}
	want := candidates
	if d.profile.Sample != nil {
		want = min(candidates, d.profile.Sample(candidates))
	}
	if len(d.profile.Score) == 0 && d.profile.Sample != nil {
		want = 1
	}
	var found Decision
	if c.class.fits == 0 && names == nil && len(d.nominated) == 0 {
		found.Evaluated = len(nodes)
		found.rejectors = c.class.rejectors()
		return found
	}
	others := d.others(c)
	i := d.start % len(nodes)
	for range nodes {
		n := nodes[i]
		if i++; i == len(nodes) {
			i = 0
		}
		if names != nil && !names[n.Name] {
			continue
		}
		found.Evaluated++
		if by := d.check(c, n, others); by >= 0 {
			if c.failure != nil {
				found.Evaluated-- // as in kube-scheduler, where an error is no refusal
				break
			}
			found.rejectors |= 1 << by
			continue
		}
		if d.feasible = append(d.feasible, n); len(d.feasible) == want {
			break
		}
	}
	d.start = (d.start + found.Evaluated) % len(nodes)
	found.Feasible = len(d.feasible)
	return found
}

// others reports whether Filter plug-ins that are not local are needed.
func (d *Scheduler) others(c *Cycle) bool {
	for i, local := range d.localFilter {
		if !local && c.skipped&(1<<i) == 0 {
			return true
		}
	}
	return false
}

// check returns the index of the Filter that refuses the node, or -1.
func (d *Scheduler) check(c *Cycle, n *Node, others bool) int {
	if len(d.nominated) > 0 && len(d.nominated[n]) > 0 {
		_, by := d.fits(c, n)
		return by
	}
	if by := c.class.by[n.index]; by >= 0 {
		return int(by)
	}
	if others {
		_, by := d.run(c, n, false)
		return by
	}
	return -1
}

// Fits runs all filters for the present state of the Snapshot, with the nominated pods of at least
// the pod's priority on the node, and without them. It is for trials of PostFilter plug-ins.
func (c *Cycle) Fits(n *Node) *Status {
	status, _ := c.scheduler.fits(c, n)
	return status
}

func (d *Scheduler) fits(c *Cycle, n *Node) (*Status, int) {
	guests := 0
	mark := d.snapshot.Begin()
	for _, p := range d.nominated[n] {
		if p != c.Pod && p.Node == nil && p.Shape.Priority >= c.Pod.Shape.Priority {
			d.snapshot.Assume(p, n, d.devices(&Cycle{Pod: p, Snapshot: d.snapshot, Rand: d.rand}, n))
			guests++
		}
	}
	status, by := d.again(c, n)
	d.snapshot.Rollback(mark)
	if status == nil && guests > 0 {
		status, by = d.again(c, n)
	}
	return status, by
}

// again repeats PreFilter of the plug-ins that are not local, and runs all filters.
func (d *Scheduler) again(c *Cycle, n *Node) (*Status, int) {
	c.skipped = 0
	if _, refused := d.preFilter(c); refused.Status != nil {
		return refused.Status, len(d.profile.Filter) - 1
	}
	return d.run(c, n, true)
}

// run calls the filters: all filters, or those that are not local.
func (d *Scheduler) run(c *Cycle, n *Node, all bool) (*Status, int) {
	for i, f := range d.profile.Filter {
		local := d.localFilter[i]
		if local && (!all || c.class.skipped&(1<<i) != 0) || !local && c.skipped&(1<<i) != 0 {
			continue
		}
		if status := f.Filter(c, n); status != nil {
			if status.Code == Error {
				c.Fail(status.String())
			}
			return status, i
		}
	}
	return nil, -1
}

// pick scores the feasible nodes and returns the index of the chosen node.
func (d *Scheduler) pick(c *Cycle) (int, *Status) {
	d.totals = d.totals[:0]
	if d.allLocal {
		for _, n := range d.feasible {
			d.totals = append(d.totals, c.class.total[n.index])
		}
		return d.profile.Pick(c, d.feasible, d.totals), nil
	}
	for range d.feasible {
		d.totals = append(d.totals, 0)
	}
	for i := range d.profile.Score {
		w := &d.profile.Score[i]
		if c.class.unscored&(1<<i) != 0 {
			continue
		}
		if status := d.score(c, i, w); status != nil {
			return 0, status
		}
	}
	return d.profile.Pick(c, d.feasible, d.totals), nil
}

// score adds the weighted scores of a plug-in to the totals.
func (d *Scheduler) score(c *Cycle, i int, w *WeightedScore) *Status {
	d.scores = d.scores[:0]
	if d.localScore[i] {
		raw := c.class.raw[i]
		for _, n := range d.feasible {
			d.scores = append(d.scores, raw[n.index])
		}
	} else {
		if pre, ok := w.Score.(PreScore); ok {
			if status := pre.PreScore(c, d.feasible); status.code() == Skip {
				return nil
			} else if status != nil {
				return status
			}
		}
		for _, n := range d.feasible {
			d.scores = append(d.scores, w.Score.Score(c, n))
		}
	}
	if normal, ok := w.Score.(Normalizer); ok {
		normal.Normalize(c, d.scores)
		for _, s := range d.scores {
			if s < 0 || s > 100 {
				return NewStatus(Error, w.Name()+": a normalized score is not between 0 and 100")
			}
		}
	}
	for k, s := range d.scores {
		d.totals[k] += s * w.Weight
	}
	return nil
}

// postFilter asks the PostFilter plug-ins after a failure.
func (d *Scheduler) postFilter(c *Cycle, found Decision, names map[string]bool) Decision {
	if len(d.profile.PostFilter) == 0 {
		return found
	}
	failed := make([]*Status, len(d.snapshot.nodes))
	others := d.others(c)
	for i, n := range d.snapshot.nodes {
		switch {
		case found.Status.code() != Unschedulable || len(found.Status.Reasons) > 0:
			failed[i] = found.Status
		case names != nil && !names[n.Name]:
			failed[i] = NewStatus(Unresolvable, "not permitted by PreFilter")
		case c.class.status[i] != nil:
			failed[i] = c.class.status[i]
		case others:
			failed[i], _ = d.run(c, n, false)
		}
	}
	for _, plugin := range d.profile.PostFilter {
		found.Post = plugin.PostFilter(c, failed)
		if code := found.Post.Status.code(); code == Success || code == Error {
			break
		}
	}
	return found
}
