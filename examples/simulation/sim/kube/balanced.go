// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"math"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Balanced prefers nodes on which the placement makes the shares of cpu and memory more alike
// (NodeResourcesBalancedAllocation of kube-scheduler 1.36): 75 is no change. Earlier versions scored
// the state after the placement alone.
type Balanced struct{}

// Name implements sim.Plugin.
func (Balanced) Name() string { return "NodeResourcesBalancedAllocation" }

// Local implements sim.Local.
func (Balanced) Local() {}

// Applies implements sim.Applier: a pod without requests changes no balance.
func (Balanced) Applies(s *sim.Shape) bool { return s.Requests.CPU != 0 || s.Requests.Memory != 0 }

// Score implements sim.Score.
func (Balanced) Score(c *sim.Cycle, n *sim.Node) int64 {
	want := &c.Pod.Shape.Requests
	with := balance(n, want.CPU, want.Memory)
	without := balance(n, 0, 0)
	return 50 + (50+with-without)/2
}

// balance is 100 for equal shares, with more cpu and memory requested.
func balance(n *sim.Node, cpu, memory int64) int64 {
	if n.Allocatable.CPU == 0 || n.Allocatable.Memory == 0 {
		return 100
	}
	a := min(1, float64(n.Requested.CPU+cpu)/float64(n.Allocatable.CPU))
	b := min(1, float64(n.Requested.Memory+memory)/float64(n.Allocatable.Memory))
	return int64((1 - math.Abs(a-b)/2) * 100)
}
