// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// scheduleGang places the queued pods of a gang in a single snapshot, as the group cycle of
// kube-scheduler 1.36: the pods are bound if at least Gang.Min pods of the gang have a node.
// Otherwise no pod is assumed, and the gang waits for an event.
func (s *Sim) scheduleGang(first *Pod) {
	gang := first.Gang
	queued := []*Pod{first}
	for _, p := range gang.members {
		if p != first && p.Node == nil && p.queued.place != nowhere {
			s.queue.drop(p)
			p.queued.attempts++
			queued = append(queued, p)
		}
	}
	mark := s.snapshot.Begin()
	placed := make([]Decision, len(queued))
	count := gang.Placed
	var failed Decision
	tried := 0
	for i, p := range queued {
		if count+len(queued)-i < gang.Min {
			break // even if all others fit
		}
		tried++
		began := time.Now()
		placed[i] = s.scheduler.Decide(p, s.now)
		s.record.decided(time.Since(began))
		if placed[i].Node == nil {
			failed = placed[i]
			continue
		}
		s.snapshot.Assume(p, placed[i].Node, placed[i].Devices)
		count++
	}
	s.snapshot.Rollback(mark)
	if count < gang.Min {
		for i, p := range queued {
			found := placed[i]
			if found.Node != nil || i >= tried { // the pod may fit, but its gang does not
				found = Decision{Status: failed.Status, rejectors: failed.rejectors}
			}
			s.unplaced(p, found)
		}
		return
	}
	for i, p := range queued {
		if placed[i].Node == nil {
			s.unplaced(p, placed[i])
			continue
		}
		s.settle(p, placed[i])
	}
}
