// SPDX-License-Identifier: Apache-2.0

package resourcefield

import (
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The kubelet divides in float64, with 53 bits.
func TestUpstreamFloatDivisionIsExact(t *testing.T) {
	got, err := divideUp(resource.MustParse("9007199254740993"), resource.MustParse("1"))
	require.NoError(t, err)
	assert.Equal(t, "9007199254740993", got)
	got, err = divideUp(resource.MustParse("9223372036854775807"), resource.MustParse("1m"))
	require.NoError(t, err)
	assert.Equal(t, "9223372036854775807000", got)
}

// Against integers, in thousandths, for every divisor the API allows.
func TestDivideUpAgreesWithIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	thousandths := map[string]int64{"m": 1, "": 1e3, "k": 1e6, "M": 1e9, "G": 1e12, "T": 1e15, "P": 1e18, "Ki": 1000 << 10, "Mi": 1000 << 20, "Gi": 1000 << 30, "Ti": 1000 << 40, "Pi": 1000 << 50}
	suffixes := slices.Sorted(maps.Keys(thousandths))
	for range 5_000 {
		count, unit, per := r.Int64N(5_000), suffixes[r.IntN(len(suffixes))], suffixes[r.IntN(len(suffixes))]
		want := big.NewInt(count)
		want.Mul(want, big.NewInt(thousandths[unit]))
		rest := new(big.Int)
		want.DivMod(want, big.NewInt(thousandths[per]), rest)
		if rest.Sign() > 0 {
			want.Add(want, big.NewInt(1))
		}
		amount := fmt.Sprintf("%d%s", count, unit)
		got, err := divideUp(resource.MustParse(amount), resource.MustParse("1"+per))
		require.NoError(t, err)
		require.Equal(t, want.String(), got, "%s / 1%s", amount, per)
	}
}
