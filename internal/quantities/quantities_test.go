// SPDX-License-Identifier: Apache-2.0

package quantities_test

import (
	"math"
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
	} {
		q := resource.MustParse(tc.text)
		assert.Equal(t, tc.value, quantities.Value(q), "%s", tc.text)
		assert.Equal(t, tc.milli, quantities.Milli(q), "thousandths of %s", tc.text)
	}
	assert.EqualValues(t, 6, quantities.Sum(1, 2, 3))
	assert.EqualValues(t, math.MaxInt64, quantities.Sum(1, math.MaxInt64-1, 1, 1))
}

// Of two quantities the larger one never gives the smaller number, and the sign is that of the quantity.
func FuzzQuantities(f *testing.F) {
	f.Add("10E", "1m")
	f.Add("9223372036854775807", "9223372036854775.807")
	f.Fuzz(func(t *testing.T, a, b string) {
		p, err := resource.ParseQuantity(a)
		if err != nil {
			return
		}
		q, err := resource.ParseQuantity(b)
		if err != nil {
			return
		}
		if p.Cmp(q) > 0 {
			p, q = q, p
		}
		require.LessOrEqual(t, quantities.Value(p), quantities.Value(q))
		require.LessOrEqual(t, quantities.Milli(p), quantities.Milli(q))
		require.False(t, p.Sign() > 0 && quantities.Value(p) <= 0 || p.Sign() < 0 && quantities.Value(p) > 0, "%s", a)
	})
}
