// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// maxPermit is the longest wait for Permit.
const maxPermit = 15 * time.Minute

// permitWait is a pod with a reserved node that waits for Permit.
type permitWait struct {
	pod   *Pod
	cycle *Cycle
	done  bool
}

// schedule places the next pod of the queue, or its whole gang.
func (s *Sim) schedule() {
	p := s.queue.pop()
	if p == nil {
		return
	}
	if p.Gang != nil && p.Gang.Placed < p.Gang.Min {
		s.scheduleGang(p)
	} else if found, ok := s.decide(p); ok {
		s.settle(p, found)
	}
	s.wakeAt = s.queue.wake()
}

// decide runs a cycle. If the pod does not fit, the failure is handled and the result is false.
func (s *Sim) decide(p *Pod) (Decision, bool) {
	began := time.Now()
	found := s.scheduler.Decide(p, s.now)
	s.record.decided(time.Since(began))
	if found.Node == nil {
		s.unplaced(p, found)
		return found, false
	}
	return found, true
}

// settle assumes the pod, and binds it unless a plug-in refuses or delays.
func (s *Sim) settle(p *Pod, found Decision) {
	s.assume(p, found)
	c := found.cycle // with the state that the plug-ins have kept
	profile := &s.scheduler.profile
	for _, plugin := range profile.Reserve {
		status := plugin.Reserve(c, p.Node)
		s.carryOut(c)
		if status != nil {
			s.unreserve(c)
			return
		}
	}
	timeout, delayed := maxPermit, false
	for _, plugin := range profile.Permit {
		verdict := plugin.Permit(c, p.Node, s.waitingPods())
		s.carryOut(c)
		switch verdict.Status.code() {
		case Success:
		case Waiting:
			delayed = true
			if verdict.Timeout > 0 {
				timeout = min(timeout, verdict.Timeout)
			}
		default:
			s.unreserve(c)
			return
		}
		s.allow(verdict.Allow)
	}
	if delayed {
		w := &permitWait{pod: p, cycle: c}
		s.waiting = append(s.waiting, w)
		s.agenda.add(s.now+timeout, func() { s.reject(w) })
		return
	}
	s.bind(p)
}

// assume puts the pod on its node in the snapshot.
func (s *Sim) assume(p *Pod, found Decision) {
	s.nominate(p, nil)
	s.snapshot.Assume(p, found.Node, found.Devices)
	p.Phase = Assumed
	if p.Gang != nil {
		p.Gang.Placed++
	}
}

// unreserve undoes a decision after a refusal, and repeats it after a back-off.
func (s *Sim) unreserve(c *Cycle) {
	node := c.Pod.Node
	for _, plugin := range slices.Backward(s.scheduler.profile.Reserve) {
		plugin.Unreserve(c, node)
	}
	s.forget(c.Pod)
	s.carryOut(c)
	s.queue.fail(c.Pod, s.now)
	s.changed(ClusterEvent{Kind: PodGone, Pod: c.Pod, Node: node})
}

// carryOut carries out the calls of Cycle.Allow and Cycle.Reject by plug-ins.
func (s *Sim) carryOut(c *Cycle) {
	for len(c.allowed)+len(c.rejected) > 0 {
		allowed, rejected := c.allowed, c.rejected
		c.allowed, c.rejected = nil, nil
		s.allow(allowed)
		s.rejectPods(rejected)
	}
}

// rejectPods refuses the pods that wait for Permit, and ignores other pods.
func (s *Sim) rejectPods(pods []*Pod) {
	for _, p := range pods {
		if i := slices.IndexFunc(s.waiting, func(w *permitWait) bool { return w.pod == p }); i >= 0 {
			s.reject(s.waiting[i])
		}
	}
}

// forget takes an assumed pod from its node.
func (s *Sim) forget(p *Pod) {
	s.snapshot.Forget(p)
	p.Phase = Pending
	if p.Gang != nil {
		p.Gang.Placed--
	}
}

func (s *Sim) waitingPods() []*Pod {
	pods := make([]*Pod, len(s.waiting))
	for i, w := range s.waiting {
		pods[i] = w.pod
	}
	return pods
}

// allow binds pods that wait for Permit.
func (s *Sim) allow(pods []*Pod) {
	for _, p := range pods {
		i := slices.IndexFunc(s.waiting, func(w *permitWait) bool { return w.pod == p })
		if i >= 0 {
			s.waiting[i].done = true
			s.waiting = slices.Delete(s.waiting, i, i+1)
			s.bind(p)
		}
	}
}

// reject refuses a pod that waits for Permit.
func (s *Sim) reject(w *permitWait) {
	if w.done {
		return
	}
	w.done = true
	s.waiting = slices.DeleteFunc(s.waiting, func(o *permitWait) bool { return o == w })
	s.unreserve(w.cycle)
}

// bind passes an assumed pod to the backend.
func (s *Sim) bind(p *Pod) {
	p.Bound = s.now
	s.expecting += s.expected(p)
	s.emit(Event{Kind: Bound, Pod: p})
	s.fail(s.backend.Bind(s.now, p))
	s.changed(ClusterEvent{Kind: PodPlaced, Pod: p, Node: p.Node})
}

// unplaced handles a cycle without a node.
func (s *Sim) unplaced(p *Pod, found Decision) {
	e := Event{Kind: Refused, Pod: p}
	if s.journal != nil {
		e.Text = s.scheduler.Explain(p, found)
	}
	s.emit(e)
	if found.cycle != nil {
		s.carryOut(found.cycle)
	}
	if s.opts.GiveUp && len(found.Post.Victims) == 0 {
		s.nominate(p, nil)
		s.emit(Event{Kind: Dropped, Pod: p})
		return
	}
	if found.Status.code() == Error || found.Post.Status.code() == Error {
		s.queue.fail(p, s.now)
		return
	}
	s.queue.refuse(p, found.rejectors, s.now)
	s.rejectPods(found.Post.Reject)
	if found.Post.Nominated != nil {
		s.preempt(p, found.Post)
	}
}

// preempt nominates a node and evicts its victims.
func (s *Sim) preempt(p *Pod, post PostFilterResult) {
	s.nominate(p, post.Nominated)
	for _, other := range slices.Clone(s.scheduler.nominated[post.Nominated]) {
		if other.Shape.Priority < p.Shape.Priority {
			s.nominate(other, nil)
		}
	}
	for _, victim := range post.Victims {
		if victim.evicting || victim.Node == nil {
			continue
		}
		if i := slices.IndexFunc(s.waiting, func(w *permitWait) bool { return w.pod == victim }); i >= 0 {
			s.reject(s.waiting[i])
			continue
		}
		if victim.Node.Ready {
			p.queued.victims++
			victim.victimOf = p
		}
		s.record.preempted(victim)
		s.evict(victim, "Preempted")
	}
	if p.queued.victims == 0 && !slices.ContainsFunc(post.Victims, func(v *Pod) bool { return v.Node != nil }) {
		s.queue.release(p, s.now)
	}
}

// abandon lets a preemptor be tried again although its victim has not ended: the node of the victim
// is lost.
func (s *Sim) abandon(victim *Pod) {
	if victim.victimOf != nil {
		victim.victimOf.queued.victims--
		victim.victimOf = nil
	}
}

// renounce lets the pods with a nominated node be tried again after a change of its taints.
func (s *Sim) renounce(n *Node) {
	for _, p := range slices.Clone(s.scheduler.nominated[n]) {
		if p.queued.place == unschedulable && p.queued.victims == 0 {
			s.queue.release(p, s.now)
		}
	}
	s.wakeAt = min(s.wakeAt, s.queue.wake())
}

// nominate sets or, with nil, removes the nominated node of a pod.
func (s *Sim) nominate(p *Pod, n *Node) {
	if old := p.queued.nominated; old != nil {
		rest := slices.DeleteFunc(s.scheduler.nominated[old], func(o *Pod) bool { return o == p })
		if len(rest) == 0 {
			delete(s.scheduler.nominated, old)
		} else {
			s.scheduler.nominated[old] = rest
		}
	}
	if p.queued.nominated = n; n != nil {
		s.scheduler.nominated[n] = append(s.scheduler.nominated[n], p)
	}
}

// evict begins the end of a bound pod.
func (s *Sim) evict(p *Pod, cause string) {
	if p.evicting || p.Bound == Never || p.Ended != Never {
		return
	}
	before := s.expected(p)
	p.evicting, p.cause = true, cause
	s.expecting += s.expected(p) - before
	s.emit(Event{Kind: Evicting, Pod: p, Text: cause})
	s.fail(s.backend.Evict(s.now, p, s.grace(p)))
}

func (s *Sim) grace(p *Pod) time.Duration {
	return time.Duration(podfacts.GracePeriodSeconds(p.Shape.Template)) * time.Second
}
