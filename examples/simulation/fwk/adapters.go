// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// adapter is a plug-in for package sim. The calls of the plug-in get a background context: a cycle of
// package sim is never cancelled, and the clients of the Handle are in memory and do not wait.
type adapter struct {
	s *Scheduler
	p *plugin
}

// Name implements sim.Plugin.
func (a adapter) Name() string { return a.p.Name() }

// call makes the cycle current for the methods of the Handle. The caller defers the result.
func (a adapter) call(c *sim.Cycle) func() {
	before := a.s.current
	a.s.current = c
	return func() { a.s.current = before }
}

// codes has the codes of package sim. All others are errors.
var codes = map[framework.Code]sim.Code{
	framework.Unschedulable: sim.Unschedulable, framework.Pending: sim.Unschedulable,
	framework.UnschedulableAndUnresolvable: sim.Unresolvable, framework.Wait: sim.Waiting, framework.Skip: sim.Skip,
}

// toSim converts a status.
func toSim(status *framework.Status) *sim.Status {
	if status.IsSuccess() {
		return nil
	}
	code, known := codes[status.Code()]
	if !known {
		code = sim.Error
	}
	return sim.NewStatus(code, status.Reasons()...)
}

// fromSim converts a status.
func fromSim(status *sim.Status) *framework.Status {
	if status == nil {
		return nil
	}
	for code, of := range codes {
		if of == status.Code && code != framework.Pending {
			return framework.NewStatus(code, status.Reasons...)
		}
	}
	return framework.NewStatus(framework.Error, status.Reasons...)
}

// preFilter implements sim.PreFilter.
type preFilter struct{ adapter }

func (a preFilter) PreFilter(c *sim.Cycle) ([]string, *sim.Status) {
	defer a.call(c)()
	own := a.s.begin(c)
	nodes := a.s.view.refresh(c.Snapshot)
	result, status := a.p.preFilter.PreFilter(context.Background(), own.state, own.pod, nodes)
	own.state.filters.Delete(a.Name())
	if status.IsSkip() {
		own.state.filters.Insert(a.Name())
	}
	if result.AllNodes() || !status.IsSuccess() {
		return nil, toSim(status)
	}
	names := sets.List(result.NodeNames)
	return slices.DeleteFunc(names, func(name string) bool { return c.Snapshot.Node(name) == nil }), nil
}

// filter implements sim.Filter, and sim.Hint for the plug-ins of PreFilter and Filter.
type filter struct{ adapter }

func (a filter) Filter(c *sim.Cycle, n *sim.Node) *sim.Status {
	if a.p.filter == nil {
		return nil
	}
	defer a.call(c)()
	own := a.s.begin(c)
	return toSim(a.p.filter.Filter(context.Background(), own.state, own.pod, a.s.view.node(c.Snapshot, n)))
}

// postFilter implements sim.PostFilter.
type postFilter struct{ adapter }

func (a postFilter) PostFilter(c *sim.Cycle, failed []*sim.Status) sim.PostFilterResult {
	defer a.call(c)()
	own := a.s.begin(c)
	a.s.view.refresh(c.Snapshot)
	a.s.posting, a.s.evicted = true, nil
	result, status := a.p.postFilter.PostFilter(context.Background(), own.state, own.pod, &statuses{&a.s.view, failed})
	a.s.posting = false
	out := sim.PostFilterResult{Status: toSim(status), Victims: a.s.evicted}
	if result != nil && result.Mode() == framework.ModeOverride {
		out.Nominated = c.Snapshot.Node(result.NominatedNodeName)
	}
	if len(out.Victims) > 0 && out.Nominated == nil {
		_ = a.s.refuse(a.Name() + ": the deletion of a pod without a nominated node")
	}
	return out
}

// statuses implements framework.NodeToStatusReader.
type statuses struct {
	view   *view
	failed []*sim.Status // by index of the node
}

func (s *statuses) Get(name string) *framework.Status {
	n := s.view.snapshot.Node(name)
	if n == nil || s.failed[n.Index()] == nil {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable)
	}
	return fromSim(s.failed[n.Index()])
}

func (s *statuses) NodesForStatusCode(lister framework.NodeInfoLister, code framework.Code) (found []framework.NodeInfo, err error) {
	for _, n := range s.view.snapshot.Nodes() {
		if s.Get(n.Name).Code() != code {
			continue
		}
		info, err := lister.Get(n.Name)
		if err != nil {
			return nil, err
		}
		found = append(found, info)
	}
	return found, nil
}

// score implements sim.Score, sim.PreScore and sim.Normalizer.
type score struct {
	adapter
	index int // in Scheduler.plugins
}

// PreScore implements sim.PreScore. The first call of a cycle calls the PreScore of all plug-ins.
func (a score) PreScore(c *sim.Cycle, feasible []*sim.Node) *sim.Status {
	defer a.call(c)()
	own := a.s.begin(c)
	if !own.prescored {
		own.prescored = true
		own.feasible, own.names = own.feasible[:0], own.names[:0]
		for _, n := range feasible {
			own.feasible, own.names = append(own.feasible, a.s.view.node(c.Snapshot, n)), append(own.names, n.Name)
		}
		if status := a.s.preScore(own.state, own); !status.IsSuccess() {
			return sim.NewStatus(sim.Error, status.Reasons()...)
		}
	}
	if own.state.scores.Has(a.Name()) {
		return sim.NewStatus(sim.Skip)
	}
	return nil
}

// preScore calls the PreScore of all plug-ins.
func (s *Scheduler) preScore(state framework.CycleState, own *cycle) *framework.Status {
	skipped := sets.New[string]()
	for _, p := range s.plugins {
		if p.preScore == nil {
			continue
		}
		status := p.preScore.PreScore(context.Background(), state, own.pod, own.feasible)
		if status.IsSkip() {
			skipped.Insert(p.Name())
		} else if !status.IsSuccess() {
			return framework.NewStatus(framework.Error, fmt.Sprintf("PreScore of %s: %s", p.Name(), status.Message()))
		}
	}
	state.SetSkipScorePlugins(skipped)
	return nil
}

// Score implements sim.Score.
func (a score) Score(c *sim.Cycle, n *sim.Node) int64 {
	defer a.call(c)()
	own := a.s.begin(c)
	value, status := a.p.score.Score(context.Background(), own.state, own.pod, a.s.view.node(c.Snapshot, n))
	if !status.IsSuccess() {
		c.Fail(fmt.Sprintf("Score of %s: %s", a.Name(), status.Message()))
	}
	return value
}

// Normalize implements sim.Normalizer. Without ScoreExtensions the scores stay, and sim checks their
// range.
func (a score) Normalize(c *sim.Cycle, scores []int64) {
	extensions := a.p.score.ScoreExtensions()
	if extensions == nil {
		return
	}
	defer a.call(c)()
	own := a.s.begin(c)
	list := make(framework.NodeScoreList, len(scores))
	for i := range scores {
		list[i] = framework.NodeScore{Name: own.names[i], Score: scores[i]}
	}
	if status := extensions.NormalizeScore(context.Background(), own.state, own.pod, list); !status.IsSuccess() {
		c.Fail(fmt.Sprintf("NormalizeScore of %s: %s", a.Name(), status.Message()))
	}
	for i := range scores {
		scores[i] = list[i].Score
	}
}

// reserve implements sim.Reserve.
type reserve struct{ adapter }

func (a reserve) Reserve(c *sim.Cycle, n *sim.Node) *sim.Status {
	defer a.call(c)()
	return toSim(a.p.reserve.Reserve(context.Background(), a.s.begin(c).state, podOf(c.Pod, n.Name), n.Name))
}

func (a reserve) Unreserve(c *sim.Cycle, n *sim.Node) {
	defer a.call(c)()
	delete(a.s.pending, c.Pod)
	a.p.reserve.Unreserve(context.Background(), a.s.begin(c).state, podOf(c.Pod, n.Name), n.Name)
}

// permit implements sim.Permit.
type permit struct{ adapter }

func (a permit) Permit(c *sim.Cycle, n *sim.Node, _ []*sim.Pod) sim.Verdict {
	defer a.call(c)()
	a.s.pending.prune(c.Waiting(), c.Pod)
	status, timeout := a.p.permit.Permit(context.Background(), a.s.begin(c).state, podOf(c.Pod, n.Name), n.Name)
	if status.IsWait() {
		a.s.pending.add(c.Pod, a.Name())
	}
	return sim.Verdict{Status: toSim(status), Timeout: max(1, timeout)}
}

// less implements QueueSort.
func (a adapter) less(x, y *sim.Pod) bool {
	return a.p.queueSort.Less(&queued{pod: x}, &queued{pod: y})
}

// Hint implements sim.Hint.
func (a filter) Hint(p *sim.Pod, e sim.ClusterEvent) bool {
	if a.p.always {
		return true
	}
	var resource framework.EventResource
	var action framework.ActionType
	var before, after any
	switch e.Kind {
	case sim.PodGone:
		resource, action, before = framework.AssignedPod, framework.Delete, podOf(e.Pod, e.Node.Name)
	case sim.PodPlaced:
		resource, action, after = framework.AssignedPod, framework.Add, podOf(e.Pod, e.Node.Name)
	default:
		resource, action, after = framework.Node, framework.Add, nodeObject(e.Node)
	}
	for _, h := range a.p.hints {
		if !matches(h.Event, resource, action) {
			continue
		}
		if h.QueueingHintFn == nil {
			return true
		}
		hint, err := h.QueueingHintFn(klog.Background(), podOf(p, ""), before, after)
		if err != nil || hint == framework.Queue {
			return true
		}
	}
	return false
}

// matches reports whether a plug-in has registered for an event.
func matches(registered framework.ClusterEvent, resource framework.EventResource, action framework.ActionType) bool {
	if registered.Resource == framework.WildCard {
		return true
	}
	same := registered.Resource == resource || registered.Resource == framework.Pod && resource == framework.AssignedPod
	if resource == framework.Node && registered.Resource == framework.Node {
		return true // sim does not tell which part of the node has changed
	}
	return same && registered.ActionType&action != 0
}
