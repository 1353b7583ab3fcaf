// SPDX-License-Identifier: Apache-2.0

package sorted

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type element struct{ key, at int }

func byKey(a, b element) int { return cmp.Compare(a.key, b.key) }

func TestOrderIsThatOfPackageSlices(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for length := range 200 {
		in := make([]element, length)
		for i := range in {
			in[i] = element{random.IntN(20), i}
		}
		want, got := slices.Clone(in), slices.Clone(in)
		slices.SortStableFunc(want, byKey)
		Stable(got, byKey)
		require.Equal(t, want, got)
		By(got, func(a, b element) int { return cmp.Or(-byKey(a, b), a.at-b.at) })
		require.True(t, slices.IsSortedFunc(got, func(a, b element) int { return cmp.Or(-byKey(a, b), a.at-b.at) }))
		require.ElementsMatch(t, in, got)
	}
}

func TestNothingIsAllocatedForASingleElement(t *testing.T) {
	s := []element{{}}
	require.Zero(t, testing.AllocsPerRun(10, func() { By(s, byKey); Stable(s, byKey); By(s[:0], byKey) }))
}
