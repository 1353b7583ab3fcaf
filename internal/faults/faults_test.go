// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestDue strikes calls at times 1 to 6.
func TestDue(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    Strikes
		want []int
	}{
		{"every call", Strikes{}, []int{1, 2, 3, 4, 5, 6}},
		{"the third", Strikes{Nth: 3}, []int{3}},
		{"two from the third on", Strikes{Nth: 3, Times: 2}, []int{3, 4}},
		{"the first two", Strikes{Times: 2}, []int{1, 2}},
		{"until 4", Strikes{Until: time.Unix(4, 0)}, []int{1, 2, 3}},
	} {
		var got []int
		for call := 1; call <= 6; call++ {
			if tc.s.Due(time.Unix(int64(call), 0)) {
				got = append(got, call)
			}
		}
		assert.Equal(t, tc.want, got, tc.name)
		assert.Equal(t, len(tc.want), tc.s.Hits(), tc.name)
	}
}

func TestLines(t *testing.T) {
	assert.Equal(t, "1s\n2m0s\n", Lines([]time.Duration{time.Second, 2 * time.Minute}))
}
