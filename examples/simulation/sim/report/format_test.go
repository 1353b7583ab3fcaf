// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFormat(t *testing.T) {
	for _, test := range []struct {
		value float64
		unit  string
		want  string
	}{
		{math.NaN(), "s", "–"}, {0, "s", "0 s"}, {1.5e-5, "s", "15 µs"}, {0.25, "s", "250 ms"}, {12.34, "s", "12.3 s"}, {600, "s", "10 min"},
		{3600, "s", "1 h"}, {864000, "s", "10 d"}, {85.94, "%", "85.9 %"}, {1234567, "", "1,234,567"}, {-1000, "", "-1,000"}, {0.97251, "", "0.973"},
	} {
		assert.Equal(t, test.want, format(test.value, test.unit))
	}
	assert.Equal(t, "+2.5 points", difference(10, 12.5, "%"))
	assert.Equal(t, "-50.0 %", difference(10, 5, "s"))
	assert.Equal(t, "equal", difference(3, 3, ""))
	assert.Empty(t, difference(math.NaN(), 1, ""))
	assert.Empty(t, difference(0, 1, ""))
}

// TestScales: ticks are few, in order and inside of the plot.
func TestScales(t *testing.T) {
	for _, high := range []float64{1e-6, 0.003, 0.7, 1, 3, 59, 100, 5000, 1e5, 1e7, 3e8} {
		for _, s := range []*scale{linear(0, high, "s"), linear(0, high, "%"), logarithmic(high, "s"), logarithmic(max(1, high), "")} {
			assert.NotEmpty(t, s.ticks, high)
			if !s.log {
				assert.LessOrEqual(t, len(s.ticks), 8, high)
			}
			last := -1.0
			for _, tick := range s.ticks {
				at := s.at(tick.value)
				assert.Greater(t, at, last, "%v", s.ticks)
				assert.LessOrEqual(t, at, 1.000001, "%v at %v", s.ticks, high)
				last = at
			}
			assert.InDelta(t, 1, s.at(s.high), 1e-9)
		}
	}
}
