// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Controller is a part of a control plane: it reacts to events. A Controller serves a single Sim.
type Controller interface {
	// Start is called once, at the instant 0.
	Start(c *Control)
	// Handle is called for each event, in order, at its instant.
	Handle(c *Control, e Event)
}

// Control are the actions of Controllers. They take effect at once.
type Control struct{ s *Sim }

// Now returns the present instant.
func (c *Control) Now() time.Duration { return c.s.now }

// Snapshot returns the nodes and pods, to be read.
func (c *Control) Snapshot() *Snapshot { return c.s.snapshot }

// Submit creates a pod.
func (c *Control) Submit(p *Pod) { c.s.submit(p) }

// Evict begins the end of a bound pod, with its own grace period. On a lost node the pod ends
// after the return of the node.
func (c *Control) Evict(p *Pod, cause string) { c.s.evict(p, cause) }

// Remove ends a pod of a lost node by force, as the deletion of its object with grace period 0.
func (c *Control) Remove(p *Pod, cause string) {
	if p.Node != nil && !p.Node.Ready && p.Bound != Never {
		p.evicting, p.cause = true, cause
		p.epoch++
		c.s.ended(p)
	}
}

// SetTaints replaces the taints of a node.
func (c *Control) SetTaints(n *Node, taints []v1.Taint) {
	c.s.snapshot.SetTaints(n, taints)
	c.s.emit(Event{Kind: NodeTainted, Node: n})
	c.s.changed(ClusterEvent{Kind: NodeChanged, Node: n})
	c.s.renounce(n)
}

// After plans a call. A planned call keeps the simulation going.
func (c *Control) After(d time.Duration, do func()) { c.s.agenda.add(c.s.now+d, do) }
