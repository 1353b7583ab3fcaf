// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// cycle is the state of a scheduling cycle, kept in the sim.Cycle.
type cycle struct {
	state     *cycleState
	pod       *v1.Pod
	prescored bool
	feasible  []framework.NodeInfo
	names     []string // of the feasible nodes
}

// stateKey is the key of the cycle in sim.Cycle.
const stateKey = "keelson/fwk"

// begin returns the state of the cycle, made by the first call.
func (s *Scheduler) begin(c *sim.Cycle) *cycle {
	if own, ok := c.State(stateKey).(*cycle); ok {
		return own
	}
	own := &cycle{state: newCycleState(), pod: podOf(c.Pod, "")}
	c.SetState(stateKey, own)
	return own
}

// cycleState implements framework.CycleState, for a single goroutine.
type cycleState struct {
	data             map[framework.StateKey]framework.StateData
	filters, scores  sets.Set[string] // plug-ins that are skipped
	preBinds, shared sets.Set[string]
}

func newCycleState() *cycleState {
	return &cycleState{data: map[framework.StateKey]framework.StateData{}, filters: sets.New[string](), scores: sets.New[string]()}
}

func (s *cycleState) ShouldRecordPluginMetrics() bool                          { return false }
func (s *cycleState) GetSkipFilterPlugins() sets.Set[string]                   { return s.filters }
func (s *cycleState) SetSkipFilterPlugins(names sets.Set[string])              { s.filters = names }
func (s *cycleState) GetSkipScorePlugins() sets.Set[string]                    { return s.scores }
func (s *cycleState) SetSkipScorePlugins(names sets.Set[string])               { s.scores = names }
func (s *cycleState) GetSkipPreBindPlugins() sets.Set[string]                  { return s.preBinds }
func (s *cycleState) SetSkipPreBindPlugins(names sets.Set[string])             { s.preBinds = names }
func (s *cycleState) GetParallelPreBindPlugins() sets.Set[string]              { return s.shared }
func (s *cycleState) SetParallelPreBindPlugins(names sets.Set[string])         { s.shared = names }
func (s *cycleState) ShouldSkipAllPostFilterPlugins() bool                     { return false }
func (s *cycleState) IsPodGroupSchedulingCycle() bool                          { return false }
func (s *cycleState) GetPodGroupSchedulingCycle() framework.PodGroupCycleState { return nil }
func (s *cycleState) GetPlacementCycleState() framework.PlacementCycleState    { return nil }

func (s *cycleState) Read(key framework.StateKey) (framework.StateData, error) {
	if value, ok := s.data[key]; ok {
		return value, nil
	}
	return nil, framework.ErrNotFound
}

func (s *cycleState) Write(key framework.StateKey, value framework.StateData) { s.data[key] = value }
func (s *cycleState) Delete(key framework.StateKey)                           { delete(s.data, key) }

// Clone copies the values with their own method Clone.
func (s *cycleState) Clone() framework.CycleState {
	if s == nil {
		return nil
	}
	out := &cycleState{
		data:    make(map[framework.StateKey]framework.StateData, len(s.data)),
		filters: s.filters.Clone(), scores: s.scores.Clone(), preBinds: s.preBinds.Clone(), shared: s.shared.Clone(),
	}
	for key, value := range s.data {
		out.data[key] = value.Clone()
	}
	return out
}
