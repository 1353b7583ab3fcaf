// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
)

func TestMakeRoom(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.Local)
	const before, same, after = "0.log.20260701-110000", "0.log.20260701-120000", "0.log.20260701-120005"
	for _, tt := range []struct {
		name     string
		names    []string
		maxFiles int
		remove   []string
		stamp    string
	}{
		{"nothing there", nil, 2, nil, "20260701-120000"},
		{"room", []string{before}, 3, nil, "20260701-120000"},
		{"no room", []string{before}, 2, []string{before}, "20260701-120000"},
		{"much too many", []string{after, before, same}, 3, []string{before, same}, "20260701-120006"},
		{"twice in a second", []string{same}, 5, nil, "20260701-120001"},
		{"ahead of the clock", []string{after, same}, 5, nil, "20260701-120006"},
		{"compressed ones count", []string{before + ".gz", same + ".gz"}, 3, []string{before + ".gz"}, "20260701-120001"},
		{"others' files", []string{"0.log", "0.log.x", "0.log.20260701", "10.log.20260701-110000", before + ".gz.tmp"}, 2, nil, "20260701-120000"},
		{"the end of time", []string{before, "0.log.99991231-235959"}, 5, []string{"0.log.99991231-235959"}, "20260701-120000"},
		{"a record that says nothing", []string{before}, 0, []string{before}, "20260701-120000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			remove, stamp := makeRoom(tt.names, "0.log", tt.maxFiles, now)
			assert.Equal(t, tt.remove, remove)
			assert.Equal(t, tt.stamp, stamp)
		})
	}
}

// TestFittingAgreesWithModel cuts text in every place.
func TestFittingAgreesWithModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range casetest.Rounds(2000) {
		var text []byte
		for range rng.IntN(20) {
			text = append(text, "ab\n"[rng.IntN(3)])
		}
		text = append(text, '\n')
		room := rng.IntN(30) - 3
		want := 0
		for line := range bytes.Lines(text) {
			if want+len(line) > room {
				break
			}
			want += len(line)
		}
		require.Equal(t, want, fitting(text, int64(room)), "%q in %d", text, room)
		first, _, _ := strings.Cut(string(text), "\n")
		require.Equal(t, len(first)+1, firstLine(text))
	}
	assert.Equal(t, 3, firstLine([]byte("abc")), "never nothing")
}
