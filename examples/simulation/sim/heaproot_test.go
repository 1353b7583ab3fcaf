// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// byTotal is a heap of places with the highest total on top.
type byTotal struct {
	places []int
	totals []int64
}

func (h byTotal) Len() int           { return len(h.places) }
func (h byTotal) Less(i, j int) bool { return h.totals[h.places[i]] > h.totals[h.places[j]] }
func (h byTotal) Swap(i, j int)      { h.places[i], h.places[j] = h.places[j], h.places[i] }
func (byTotal) Push(any)             { panic("heap.Init only orders") }
func (byTotal) Pop() any             { panic("heap.Init only orders") }

// TestHeapRoot: the choice is the root of the heap of the standard library, with few and with many equal totals.
func TestHeapRoot(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 5000 {
		h := byTotal{}
		different := int64(1 + random.IntN(10))
		for place := range 1 + random.IntN(70) {
			h.places, h.totals = append(h.places, place), append(h.totals, random.Int64N(different))
		}
		got := sim.HeapRoot(nil, make([]*sim.Node, len(h.places)), h.totals)
		heap.Init(h)
		require.Equal(t, h.places[0], got, "round %d: %v", round, h.totals)
	}
}
