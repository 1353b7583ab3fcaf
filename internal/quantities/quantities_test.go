// SPDX-License-Identifier: Apache-2.0

package quantities_test

import (
	"math"
	"math/big"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/quantities"
)

func TestQuantities(t *testing.T) {
	for _, tc := range []struct {
		text         string
		value, milli int64
	}{
		{"0", 0, 0},
		{"1500m", 2, 1500},
		{"1n", 1, 1},
		{"1Gi", 1 << 30, 1000 << 30},
		{"-1", -1, -1000},
		{"9223372036854775807", math.MaxInt64, math.MaxInt64},
		{"9223372036854775806", math.MaxInt64 - 1, math.MaxInt64},
		{"9223372036854775808", math.MaxInt64, math.MaxInt64},
		{"10000000000000000000", math.MaxInt64, math.MaxInt64},
		{"10E", math.MaxInt64, math.MaxInt64},
		{"16Ei", math.MaxInt64, math.MaxInt64},
		{"10P", 10e15, math.MaxInt64},
		{"9P", 9e15, 9e18},
		{"-10E", -math.MaxInt64, -math.MaxInt64},
		{"-1m", -1, -1},
		{"-1e-10", -1, -1},
		{"0E400", 0, 0},
		{"1E400", math.MaxInt64, math.MaxInt64},
		{"123456789012345678901234567890E400", math.MaxInt64, math.MaxInt64},
		{"-1E400", -math.MaxInt64, -math.MaxInt64},
		{"1E-400", 1, 1},
		{"1000000000000000000000E-3", 1e18, math.MaxInt64},
		{"9223073879.0000000001", 9223073880, 9223073879001},
	} {
		q := resource.MustParse(tc.text)
		assert.Equal(t, tc.value, quantities.Value(q), "%s", tc.text)
		assert.Equal(t, tc.milli, quantities.Milli(q), "thousandths of %s", tc.text)
	}
	assert.EqualValues(t, 6, quantities.Sum(1, 2, 3))
	assert.EqualValues(t, math.MaxInt64, quantities.Sum(1, math.MaxInt64-1, 1, 1))
}

// The quantities of usual pods need no arithmetic on numbers of any size, because a node computes with
// each pod's quantities several times for each change.
func TestWholeQuantitiesCostNoAllocation(t *testing.T) {
	for _, text := range []string{"1", "128Mi", "64Gi", "2k", "110"} {
		q := resource.MustParse(text)
		assert.Zero(t, testing.AllocsPerRun(10, func() { quantities.Value(q); quantities.Milli(q) }), text)
	}
}

// The numbers are those of exact arithmetic, for all quantities with an exponent that can be computed with.
func FuzzQuantities(f *testing.F) {
	f.Add("10E")
	f.Add("9223372036854775.807")
	f.Add("-1.5e-7")
	f.Add("0.0000000000000000001E30")
	large := regexp.MustCompile(`[eE][+-]?\d{4}`)
	f.Fuzz(func(t *testing.T, text string) {
		if large.MatchString(text) {
			return
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return
		}
		copied := q.DeepCopy()
		exact, ok := new(big.Rat).SetString(copied.AsDec().String())
		require.True(t, ok)
		require.Equal(t, rounded(exact), quantities.Value(q), "%s", text)
		exact.Mul(exact, big.NewRat(1000, 1))
		require.Equal(t, rounded(exact), quantities.Milli(q), "thousandths of %s", text)
	})
}

// rounded returns r rounded away from zero, within the range of numbers that a quantity gives.
func rounded(r *big.Rat) int64 {
	n, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() != 0 {
		n.Add(n, big.NewInt(int64(r.Sign())))
	}
	switch limit := big.NewInt(math.MaxInt64); {
	case n.CmpAbs(limit) <= 0:
		return n.Int64()
	case n.Sign() > 0:
		return math.MaxInt64
	}
	return -math.MaxInt64
}
