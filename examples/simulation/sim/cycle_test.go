// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// stateful keeps a state from Filter to Reserve, and fails at an extension point, once.
type stateful struct {
	failAt string
	failed bool
	kept   any
}

func (*stateful) Name() string { return "stateful" }

// fail fails the cycle of the first call at the point.
func (p *stateful) fail(c *sim.Cycle, at string) *sim.Status {
	if p.failed || p.failAt != at {
		return nil
	}
	p.failed = true
	if at == "Score" {
		c.Fail("broken")
		return nil
	}
	return sim.NewStatus(sim.Error, "broken")
}

func (p *stateful) PreFilter(c *sim.Cycle) ([]string, *sim.Status) {
	return nil, p.fail(c, "PreFilter")
}
func (p *stateful) Filter(c *sim.Cycle, n *sim.Node) *sim.Status {
	c.SetState("stateful", c.Pod.Name)
	return p.fail(c, "Filter")
}
func (p *stateful) Score(c *sim.Cycle, n *sim.Node) int64 {
	p.fail(c, "Score")
	return 0
}
func (p *stateful) Reserve(c *sim.Cycle, n *sim.Node) *sim.Status {
	p.kept = c.State("stateful")
	return nil
}
func (*stateful) Unreserve(*sim.Cycle, *sim.Node) {}

// PostFilter must not be asked after an error.
func (*stateful) PostFilter(*sim.Cycle, []*sim.Status) sim.PostFilterResult {
	panic("asked after an error")
}

// TestErrorEndsTheCycle: after an error at any point, no node is chosen and PostFilter is not asked. The
// pod is tried again after a back-off. Reserve sees the state of its cycle.
func TestErrorEndsTheCycle(t *testing.T) {
	for _, at := range []string{"", "PreFilter", "Filter", "Score"} {
		p := &stateful{failAt: at}
		s, err := sim.New(sim.Options{
			Nodes:    nodes(2),
			Workload: sim.Arrivals{{Name: "pod", Shape: shape(t, "1"), Duration: time.Second}},
			Profile: sim.Profile{
				PreFilter: []sim.PreFilter{p}, Filter: []sim.Filter{p}, PostFilter: []sim.PostFilter{p},
				Score: []sim.WeightedScore{{Score: p}}, Reserve: []sim.Reserve{p},
			},
		})
		require.NoError(t, err)
		var bound time.Duration = -1
		for e, more := s.Step(); more; e, more = s.Step() {
			if e.Kind == sim.Bound {
				require.Equal(t, "node-0", e.Node.Name)
				require.Same(t, s.Snapshot().Node("node-0").Object, e.Node.Object)
				bound = e.At
			}
		}
		require.NoError(t, s.Err())
		want := time.Second
		if at == "" {
			want = 0
		}
		require.Equal(t, want, bound, at)
		require.Equal(t, "pod", p.kept)
	}
}

// quorum is a Permit and Reserve plug-in that uses the Cycle: the third pod allows those that wait, or a
// pod with the name "veto" rejects them.
type quorum struct{ seen []string }

func (*quorum) Name() string { return "quorum" }
func (*quorum) Permit(c *sim.Cycle, _ *sim.Node, _ []*sim.Pod) sim.Verdict {
	if len(c.Waiting()) < 2 {
		return sim.Verdict{Status: sim.NewStatus(sim.Waiting)}
	}
	for _, p := range c.Waiting() {
		if c.Pod.Name == "veto" {
			c.Reject(p)
		} else {
			c.Allow(p)
		}
	}
	return sim.Verdict{}
}
func (*quorum) Reserve(*sim.Cycle, *sim.Node) *sim.Status { return nil }
func (q *quorum) Unreserve(c *sim.Cycle, _ *sim.Node)     { q.seen = append(q.seen, c.Pod.Name) }

// TestWaitingPods: Cycle.Allow binds the pods that wait for Permit, and Cycle.Reject refuses them.
func TestWaitingPods(t *testing.T) {
	for last, want := range map[string][]string{"third": nil, "veto": {"first", "second"}} {
		q, of := &quorum{}, shape(t, "1")
		s, err := sim.New(sim.Options{
			Nodes:    nodes(1),
			Workload: sim.Arrivals{{Name: "first", Shape: of}, {Name: "second", Shape: of}, {Name: last, Shape: of}},
			Profile:  sim.Profile{Reserve: []sim.Reserve{q}, Permit: []sim.Permit{q}},
			Until:    500 * time.Millisecond,
		})
		require.NoError(t, err)
		bound := map[string]bool{}
		for e, more := s.Step(); more; e, more = s.Step() {
			if e.Kind == sim.Bound {
				bound[e.Pod.Name] = true
			}
		}
		require.True(t, bound[last])
		require.Equal(t, want == nil, bound["first"] && bound["second"], last)
		require.Equal(t, want, q.seen)
	}
}
