// SPDX-License-Identifier: Apache-2.0

package report

import "math"

// scale maps values to the range from 0 to 1.
type scale struct {
	low, high float64
	log       bool
	unit      float64 // of a logarithmic scale, which is linear below the unit
	ticks     []tick
}

type tick struct {
	value float64
	text  string
}

// at returns the position of a value.
func (s *scale) at(x float64) float64 {
	if s.high == s.low {
		return 0
	}
	if s.log {
		return s.bent(x) / s.bent(s.high)
	}
	return (x - s.low) / (s.high - s.low)
}

func (s *scale) bent(x float64) float64 { return math.Log1p(max(0, x-s.low) / s.unit) }

// The steps between ticks of times, in seconds.
var timeSteps = []float64{
	1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600,
	86400, 2 * 86400, 5 * 86400, 10 * 86400, 20 * 86400, 50 * 86400, 100 * 86400, 200 * 86400, 500 * 86400,
}

// linear returns a scale from low to at least high with a few round ticks.
func linear(low, high float64, unit string) *scale {
	if high <= low {
		high = low + 1
	}
	const most = 6
	step := math.Pow(10, math.Floor(math.Log10((high-low)/most)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*factor) <= most {
			step *= factor
			break
		}
	}
	if unit == "s" && high-low >= most {
		for _, s := range timeSteps {
			if step = s; (high-low)/s <= most {
				break
			}
		}
	}
	s := &scale{low: low, high: high}
	for k := math.Ceil(low / step); k*step <= high*(1+1e-9); k++ {
		s.ticks = append(s.ticks, tick{k * step, tickText(k*step, unit)})
	}
	return s
}

func tickText(x float64, unit string) string {
	if unit == "s" {
		if x == 0 {
			return "0"
		}
		return duration(x)
	}
	if x != math.Trunc(x) {
		return trimmed(x)
	}
	return plain(x, 0)
}

// logTimes are the ticks of logarithmic scales of seconds.
var logTimes = []float64{
	1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 10 * 86400, 100 * 86400, 1000 * 86400,
}

// logarithmic returns a scale for values with a long tail.
func logarithmic(highest float64, unit string) *scale {
	s := &scale{log: true, unit: 1, high: highest}
	if unit != "s" {
		s.low = 1
		for x := 1.0; x <= max(highest, 2); x *= 10 {
			for _, f := range []float64{1, 2, 5} {
				if x*f <= highest {
					s.ticks = append(s.ticks, tick{x * f, tickText(x*f, "")})
				}
			}
		}
		s.high = max(highest, 2)
		return s
	}
	for s.unit > 1e-6 && highest < 1000*s.unit {
		s.unit /= 10
	}
	s.high = max(highest, 2*s.unit)
	s.ticks = []tick{{0, "0"}}
	for _, x := range logTimes {
		if x >= s.unit && x <= s.high {
			s.ticks = append(s.ticks, tick{x, duration(x)})
		}
	}
	return s
}
