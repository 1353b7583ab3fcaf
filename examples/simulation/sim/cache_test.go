// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
	"github.com/keelson-dev/keelson/examples/simulation/sim/workload"
)

// uncachedFilter and uncachedScore hide the method Local of a plug-in.
type uncachedFilter struct{ f sim.Filter }

func (u uncachedFilter) Name() string                                 { return u.f.Name() }
func (u uncachedFilter) Filter(c *sim.Cycle, n *sim.Node) *sim.Status { return u.f.Filter(c, n) }
func (u uncachedFilter) Hint(p *sim.Pod, e sim.ClusterEvent) bool     { return u.f.(sim.Hint).Hint(p, e) }
func (u uncachedFilter) PreFilter(c *sim.Cycle) ([]string, *sim.Status) {
	return u.f.(sim.PreFilter).PreFilter(c)
}

type uncachedScore struct{ s sim.Score }

func (u uncachedScore) Name() string                          { return u.s.Name() }
func (u uncachedScore) Score(c *sim.Cycle, n *sim.Node) int64 { return u.s.Score(c, n) }
func (u uncachedScore) Normalize(c *sim.Cycle, scores []int64) {
	if normal, ok := u.s.(sim.Normalizer); ok {
		normal.Normalize(c, scores)
	}
}

// TestCacheChangesNoDecision: the journal is the same with and without cached results.
func TestCacheChangesNoDecision(t *testing.T) {
	plain := kube.Profile()
	plain.PreFilter = nil
	plain.Filter = plain.Filter[:6]
	plain.Score = []sim.WeightedScore{plain.Score[0], plain.Score[2], plain.Score[5]}
	slow := plain
	slow.Filter, slow.Score = nil, nil
	for _, f := range plain.Filter {
		slow.Filter = append(slow.Filter, uncachedFilter{f})
	}
	for _, s := range plain.Score {
		slow.Score = append(slow.Score, sim.WeightedScore{Score: uncachedScore{s.Score}, Weight: s.Weight})
	}
	for seed := range uint64(3) {
		of := func(p sim.Profile) string {
			_, journal := run(t, sim.Options{
				Nodes: nodes(110), Profile: p, Seed: seed, Controllers: []sim.Controller{&sim.Jobs{}},
				Workload: workload.Poisson{
					Seed: seed, Jobs: 400, Every: time.Second, Mean: 5 * time.Minute,
					Shapes: []*sim.Shape{shape(t, "500m"), shape(t, "2"), shape(t, "3", priority(5))},
				},
			})
			return journal
		}
		assert.True(t, of(plain) == of(slow), "seed %d", seed)
	}
}
