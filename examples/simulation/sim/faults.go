// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"time"
)

// Fault is a failure of nodes: all containers of the node end, and the node boots after a while.
type Fault struct {
	// Node is the name of the node. Defaults to all nodes, each by its own chance; then Rate is required.
	Node string
	// At is the instant of the failure. It is ignored if Rate is set.
	At time.Duration
	// Rate is the expected number of failures of a node per day of virtual time: the time to the
	// next failure is exponentially distributed. Defaults to a single failure at At.
	Rate float64
	// For is the duration of the failure. 0: the node does not come back.
	For time.Duration
}

func (f *Fault) validate() error {
	switch {
	case f.At < 0 || f.For < 0 || f.Rate < 0:
		return errors.New("negative")
	case f.Node == "" && f.Rate == 0:
		return errors.New("a fault without Node needs a Rate")
	}
	return nil
}

// planFaults plans the first failure of each node.
func (s *Sim) planFaults() {
	for i := range s.opts.Faults {
		f := &s.opts.Faults[i]
		for _, n := range s.snapshot.nodes {
			if f.Node == "" || f.Node == n.Name {
				s.planFault(f, n)
			}
		}
	}
}

func (s *Sim) planFault(f *Fault, n *Node) {
	at := f.At
	if f.Rate > 0 {
		at = s.now + time.Duration(s.rand.ExpFloat64()/f.Rate*float64(24*time.Hour))
	}
	s.agenda.addQuiet(at, f.Rate > 0, func() {
		if !n.Ready {
			return // by another fault
		}
		s.lose(n)
		if f.For > 0 {
			s.agenda.add(s.now+f.For, func() {
				s.back(n)
				if f.Rate > 0 {
					s.planFault(f, n)
				}
			})
		}
	})
}

// lose makes a node fail.
func (s *Sim) lose(n *Node) {
	s.fail(s.backend.Lose(s.now, n))
	for _, p := range n.Pods {
		s.record.interrupt(p)
		s.abandon(p)
		s.expecting -= s.expected(p)
	}
	s.snapshot.SetReady(n, false)
	s.emit(Event{Kind: NodeLost, Node: n})
}

// back boots a node again. Its pods start from the beginning, unless they were evicted.
func (s *Sim) back(n *Node) {
	s.snapshot.SetReady(n, true)
	for _, p := range n.Pods {
		if p.Bound == Never {
			continue
		}
		if p.Phase == Running {
			p.Phase = Assumed
		}
		p.Started, p.Ready = Never, Never
		s.expecting += s.expected(p)
	}
	s.emit(Event{Kind: NodeBack, Node: n})
	s.fail(s.backend.Return(s.now, n))
	s.changed(ClusterEvent{Kind: NodeChanged, Node: n})
}

// expected returns 1 if the backend will yield an event of the pod.
func (s *Sim) expected(p *Pod) int {
	if p.Bound == Never || p.Node != nil && !p.Node.Ready || p.Work == 0 && p.Ready != Never && !p.evicting {
		return 0
	}
	return 1
}
