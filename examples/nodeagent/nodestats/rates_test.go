// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRates(t *testing.T) {
	epoch := time.Unix(1000, 0)
	type step struct {
		after time.Duration
		ns    uint64
		want  uint64 // of the counter
		rate  float64
	}
	const unknown = -1
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"the first rate after a window", []step{{0, 1e9, 1e9, unknown}, {4 * time.Second, 5e9, 5e9, unknown}, {5 * time.Second, 6e9, 6e9, 1}}},
		{"an idle container", []step{{0, 1e9, 1e9, unknown}, {10 * time.Second, 1e9, 1e9, 0}}},
		{"samples in quick succession keep the base", []step{
			{0, 0, 0, unknown}, {10 * time.Second, 5e9, 5e9, 0.5}, {11 * time.Second, 6e9, 6e9, 6.0 / 11}, {14 * time.Second, 9e9, 9e9, 9.0 / 14}, {15 * time.Second, 10e9, 10e9, 1},
		}},
		{"a repeated measurement", []step{{0, 1e9, 1e9, unknown}, {0, 1e9, 1e9, unknown}, {10 * time.Second, 2e9, 2e9, 0.1}, {10 * time.Second, 2e9, 2e9, 0.1}}},
		{"an older measurement", []step{{10 * time.Second, 1e9, 1e9, unknown}, {0, 5e8, 1e9, unknown}}},
		{"a counter that falls stays", []step{{0, 9e9, 9e9, unknown}, {10 * time.Second, 8e9, 9e9, 0}, {20 * time.Second, 10e9, 10e9, 0.1}}},
		{"too old a sample", []step{{0, 0, 0, unknown}, {longest, 1e9, 1e9, unknown}, {longest + 5*time.Second, 6e9, 6e9, 1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r rates
			for _, s := range test.steps {
				ns, rate, known := r.observe(counterKey{name: "c"}, sample{epoch.Add(s.after), s.ns})
				require.Equal(t, s.want, ns)
				if s.rate == unknown {
					require.False(t, known, "after %v", s.after)
					continue
				}
				require.True(t, known, "after %v", s.after)
				require.InDelta(t, s.rate*1e9, float64(rate), 1)
			}
		})
	}
}

// The counter never falls, and no rate is higher than the highest between two samples.
func FuzzRates(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		random := rand.New(rand.NewPCG(a, b))
		var r rates
		at, used, last := time.Unix(1000, 0), uint64(0), uint64(0)
		for range 100 {
			at = at.Add(time.Duration(random.Int64N(int64(20 * time.Second))))
			used += uint64(random.Int64N(1e9))
			report := used - min(used, uint64(random.Int64N(2))*uint64(random.Int64N(1e9)))
			ns, rate, known := r.observe(counterKey{name: "c"}, sample{at, report})
			require.GreaterOrEqual(t, ns, last)
			require.GreaterOrEqual(t, ns, report)
			last = ns
			if known {
				require.Less(t, rate, uint64(100e9), "at most 100 samples of a core-second in 5 s or more")
			}
		}
	})
}
