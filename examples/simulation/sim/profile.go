// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"time"
)

// Profile is a scheduler: functions at the extension points of the framework of kube-scheduler. The
// order of a slice is the order of the calls. The zero Profile binds each pod to the first node.
type Profile struct {
	Name string
	// Less is QueueSort. Defaults to the higher priority, then the earlier queueing.
	Less func(a, b *Pod) bool
	// PreFilter plug-ins see all nodes before Filter.
	PreFilter  []PreFilter
	Filter     []Filter
	PostFilter []PostFilter
	Score      []WeightedScore
	Reserve    []Reserve
	Permit     []Permit
	// Devices chooses the GPUs of a pod on a node where Filter has found enough. Defaults to Tightest.
	Devices func(c *Cycle, n *Node) []int
	// Backoff are the delays of the queue.
	Backoff Backoff
	// Sample returns the number of feasible nodes to look for. Defaults to all nodes. SampleDefault
	// is the rule of kube-scheduler.
	Sample func(nodes int) int
	// Pick chooses among the feasible nodes; totals are their weighted scores. Defaults to HeapRoot.
	Pick func(c *Cycle, feasible []*Node, totals []int64) int
}

// Plugin has a name for messages.
type Plugin interface{ Name() string }

// PreFilter looks at the pod and all nodes once in a cycle.
type PreFilter interface {
	Plugin
	// PreFilter returns the names of the only nodes to look at, or nil for all nodes. With the code
	// Skip, Filter of the same plug-in is not called in this cycle.
	PreFilter(c *Cycle) (names []string, status *Status)
}

// Filter excludes nodes. It does not write to the node or the pod.
type Filter interface {
	Plugin
	Filter(c *Cycle, n *Node) *Status
}

// Local marks a Filter or a Score that depends on Cycle.Pod.Shape and on the node alone. The results
// are kept until the node changes. Such a plug-in has neither PreScore nor state in the Cycle; its
// PreFilter depends on the Shape alone.
type Local interface{ Local() }

// PostFilter is asked if no node is feasible.
type PostFilter interface {
	Plugin
	// PostFilter gets the status of each node by index. The first PostFilter whose result has the
	// code Success or Error is the last that is asked.
	PostFilter(c *Cycle, failed []*Status) PostFilterResult
}

// PostFilterResult is the decision of a PostFilter.
type PostFilterResult struct {
	Status *Status
	// Nominated is the node that will have room after the end of the victims.
	Nominated *Node
	Victims   []*Pod
	// Reject are pods that wait for Permit and get a refusal.
	Reject []*Pod
}

// PreScore sees the feasible nodes. With the code Skip, the plug-in does not score in this cycle.
type PreScore interface {
	PreScore(c *Cycle, feasible []*Node) *Status
}

// Score rates a feasible node. It does not write to the node or the pod.
type Score interface {
	Plugin
	Score(c *Cycle, n *Node) int64
}

// Normalizer is an optional ability of a Score: it maps the scores of all feasible nodes to a
// common range. The slice is changed in place.
type Normalizer interface {
	Normalize(c *Cycle, scores []int64)
}

// WeightedScore is a Score with its weight. Defaults to the weight 1.
type WeightedScore struct {
	Score
	Weight int64
}

// Reserve notes a decision before Permit. Unreserve is called in reverse order for all plug-ins if
// any of them, or Permit, refuses.
type Reserve interface {
	Plugin
	Reserve(c *Cycle, n *Node) *Status
	Unreserve(c *Cycle, n *Node)
}

// Permit delays or refuses the binding of a pod with a reserved node.
type Permit interface {
	Plugin
	// Permit gets the pods that wait already, in the order of their decisions.
	Permit(c *Cycle, n *Node, waiting []*Pod) Verdict
}

// Verdict is the answer of a Permit.
type Verdict struct {
	// Status is nil, Waiting, or a refusal.
	Status *Status
	// Timeout is the longest wait. The limit is 15 minutes, which is also the default.
	Timeout time.Duration
	// Allow are waiting pods that are bound now.
	Allow []*Pod
}

// Event kinds that may make a pod schedulable again.
type ClusterEvent struct {
	Kind ClusterEventKind
	Pod  *Pod  // of PodGone and PodPlaced
	Node *Node // of all kinds
}

// ClusterEventKind is the kind of a ClusterEvent.
type ClusterEventKind uint8

// The kinds.
const (
	PodGone     ClusterEventKind = iota // an assumed or bound pod has left the node
	PodPlaced                           // a pod was bound to the node
	NodeChanged                         // the node came back, or its taints changed
)

// Hint is an optional ability of a plug-in: it reports whether a refused pod may fit after an event.
// Without it, every event counts. The answer depends on the pod's Shape and the event alone.
type Hint interface {
	Hint(p *Pod, e ClusterEvent) bool
}

// Backoff are the delays of kube-scheduler's queue.
type Backoff struct {
	// Initial is the delay after the first failure, doubled up to Max. Default to 1 s and 10 s.
	Initial, Max time.Duration
	// Flush is the age at which an unschedulable pod is tried again without an event. Defaults to 5 min.
	Flush time.Duration
	// Strict keeps a pod in back-off although no other pod is queued. kube-scheduler 1.36 is not strict.
	Strict bool
}

// validate returns the profile with its defaults.
func (p Profile) validate() (Profile, error) {
	for i, s := range p.Score {
		if s.Score == nil || s.Weight < 0 {
			return p, fmt.Errorf("sim: Profile.Score[%d]: a plug-in with a positive weight is needed", i)
		}
	}
	if p.Backoff.Initial < 0 || p.Backoff.Max < 0 || p.Backoff.Flush < 0 {
		return p, errors.New("sim: Profile.Backoff: negative")
	}
	score := make([]WeightedScore, len(p.Score))
	for i, s := range p.Score {
		score[i] = WeightedScore{s.Score, max(1, s.Weight)}
	}
	p.Score = score
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	or(&p.Backoff.Initial, time.Second)
	or(&p.Backoff.Max, 10*time.Second)
	or(&p.Backoff.Flush, 5*time.Minute)
	if p.Less == nil {
		p.Less = PrioritySort
	}
	if p.Devices == nil {
		p.Devices = Tightest
	}
	if p.Pick == nil {
		p.Pick = HeapRoot
	}
	return p, nil
}

// PrioritySort prefers the higher priority, then the earlier queueing, then the earlier submission.
func PrioritySort(a, b *Pod) bool {
	if a.Shape.Priority != b.Shape.Priority {
		return a.Shape.Priority > b.Shape.Priority
	}
	if a.queued.at != b.queued.at {
		return a.queued.at < b.queued.at
	}
	return a.UID < b.UID
}

// SampleDefault is the number of feasible nodes that kube-scheduler looks for: all of fewer than
// 100, otherwise 50 % less a percent for each 125 nodes, at least 5 % and at least 100.
func SampleDefault(nodes int) int {
	if nodes < 100 {
		return nodes
	}
	return max(100, nodes*max(5, 50-nodes/125)/100)
}

// Tightest takes the GPU with the smallest sufficient rest for a share, and the first free GPUs for
// a pod of whole GPUs.
func Tightest(c *Cycle, n *Node) []int {
	want := &c.Pod.Shape.GPU
	if want.Count == 0 {
		return nil
	}
	if want.Milli < 1000 {
		best := -1
		for i, left := range n.GPUs {
			if left >= want.Milli && (best < 0 || left < n.GPUs[best]) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		return []int{best}
	}
	devices := make([]int, 0, want.Count)
	for i, left := range n.GPUs {
		if left >= want.Milli && len(devices) < want.Count {
			devices = append(devices, i)
		}
	}
	return devices
}

// FirstBest picks the first node with the highest total.
func FirstBest(_ *Cycle, feasible []*Node, totals []int64) int {
	best := 0
	for i := range feasible {
		if totals[i] > totals[best] {
			best = i
		}
	}
	return best
}

// HeapRoot picks the root of a binary heap over the feasible nodes in their order, with the highest
// total on top. kube-scheduler 1.36 chooses so among equals.
func HeapRoot(_ *Cycle, feasible []*Node, totals []int64) int {
	top := make([]int32, len(feasible)) // of the heap below each place: the root does not depend on the order of the others
	for i := len(top) - 1; i >= 0; i-- {
		top[i] = int32(i)
		child := 2*i + 1
		if child >= len(top) {
			continue
		}
		highest := top[child]
		if right := child + 1; right < len(top) && totals[top[right]] > totals[highest] {
			highest = top[right]
		}
		if totals[highest] > totals[i] {
			top[i] = highest
		}
	}
	return int(top[0])
}

// AnyFeasible picks a feasible node by chance.
func AnyFeasible(c *Cycle, feasible []*Node, _ []int64) int { return c.Rand.IntN(len(feasible)) }
