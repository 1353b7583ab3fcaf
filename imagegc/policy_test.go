// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A single given threshold leads to a sensible default of the other.
func TestPolicyDefaults(t *testing.T) {
	for _, c := range []struct{ high, low, wantHigh, wantLow int }{
		{0, 0, 85, 80}, {85, 0, 85, 80}, {90, 0, 90, 80}, {100, 0, 100, 80}, {84, 0, 84, 79}, {50, 0, 50, 45},
		{6, 0, 6, 1}, {3, 0, 3, 1}, {1, 0, 1, 1}, {0, 70, 85, 70}, {50, 50, 50, 50},
	} {
		p, err := Policy{HighPercent: c.high, LowPercent: c.low}.withDefaults()
		require.NoError(t, err)
		require.Equal(t, [2]int{c.wantHigh, c.wantLow}, [2]int{p.HighPercent, p.LowPercent}, "of %d and %d", c.high, c.low)
	}
	for given, want := range map[time.Duration]time.Duration{0: 2 * time.Minute, 1: 1, -1: -1} {
		p, err := Policy{MinAge: given}.withDefaults()
		require.NoError(t, err)
		require.Equal(t, want, p.MinAge)
	}
	require.True(t, Policy{HighPercent: 100}.disabled())
	require.False(t, Policy{HighPercent: 100, MaxAge: 1}.disabled(), "images go by their age")
	require.False(t, Policy{HighPercent: 99}.disabled())
	_, err := Policy{HighPercent: 50, LowPercent: 51}.withDefaults()
	require.EqualError(t, err, "imagegc: Policy.LowPercent 51 is above HighPercent 50")
}
