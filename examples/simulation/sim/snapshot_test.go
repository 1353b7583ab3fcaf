// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// model is a Snapshot that is simple on purpose: the node of each pod.
type model map[*sim.Pod]string

// check compares the sums of the Snapshot with those of the model.
func (m model) check(t *testing.T, s *sim.Snapshot) {
	pods := 0
	for _, n := range s.Nodes() {
		var cpu, memory int64
		for p, node := range m {
			if node == n.Name {
				cpu += p.Shape.Requests.CPU
				memory += p.Shape.Requests.Memory
				pods++
				require.True(t, slices.Contains(n.Pods, p))
				require.Same(t, n, p.Node)
			}
		}
		require.Equal(t, []int64{cpu, memory}, []int64{n.Requested.CPU, n.Requested.Memory}, n.Name)
	}
	require.Equal(t, pods, s.Pods())
}

// TestSnapshotAgainstModel makes random changes and trials, and compares with the model.
func TestSnapshotAgainstModel(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 0))
		s, err := sim.NewSnapshot(nodes(4))
		require.NoError(t, err)
		shapes := []*sim.Shape{shape(t, "1"), shape(t, "100m")}
		pods := make([]*sim.Pod, 20)
		for i := range pods {
			pods[i] = &sim.Pod{Shape: shapes[i%2]}
		}
		m := model{}
		change := func(m model) {
			p := pods[random.IntN(len(pods))]
			if _, placed := m[p]; placed {
				s.Forget(p)
				delete(m, p)
				return
			}
			n := s.Nodes()[random.IntN(4)]
			s.Assume(p, n, nil)
			m[p] = n.Name
		}
		var trial func(m model, depth int)
		trial = func(m model, depth int) {
			before := make([][]*sim.Pod, 4)
			for i, n := range s.Nodes() {
				before[i] = slices.Clone(n.Pods)
			}
			tried := model{}
			for p, n := range m {
				tried[p] = n
			}
			mark := s.Begin()
			for range random.IntN(10) {
				change(tried)
				tried.check(t, s)
			}
			if depth < 2 {
				trial(tried, depth+1)
			}
			s.Rollback(mark)
			m.check(t, s)
			for i, n := range s.Nodes() {
				require.True(t, slices.Equal(before[i], n.Pods), "the order of the pods is restored")
			}
		}
		for range 30 {
			change(m)
			m.check(t, s)
			trial(m, 0)
		}
	}
}
