// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistory(t *testing.T) {
	got := history([]string{
		"0.log.20260701-120002", "0.log", "0.log.20260701-120001.gz", "0.log.20260701-120003", "0.log.20260701-120002.gz",
		"0.log.20260701-120001.gz.tmp", "0.log.20261301-120001", "0.log.x", "10.log.20260701-120001", "0.log.20260701-120001.5", "0.log.20260701-120001.gz.gz",
	}, "0.log")
	require.Equal(t, []rotated{{"20260701-120001", true}, {"20260701-120002", false}, {"20260701-120003", false}}, got)
}

func TestLeftovers(t *testing.T) {
	require.Equal(t, []string{"0.log.20260701-120001", "0.log.20260701-120002.gz.tmp"}, leftovers([]string{
		"0.log", "0.log.20260701-120002.gz.tmp", "0.log.20260701-120002", "0.log.20260701-120001", "0.log.20260701-120001.gz",
		"0.log.20260701-120003.tmp", "0.log.tmp", "1.log.20260701-120003.gz.tmp", "0.log.20260701-120004.gz",
	}, "0.log"))
}

func TestMakeRoom(t *testing.T) {
	const a, b, c, d = "0.log.20260701-120001", "0.log.20260701-120002", "0.log.20260701-120003", "0.log.20260701-120004"
	for _, tc := range []struct {
		name             string
		files            []string
		maxFiles         int
		remove, compress []string
	}{
		{"nothing rotated yet", []string{"0.log"}, 5, nil, nil},
		{"the newest is compressed now that there is a newer one", []string{a + ".gz", b}, 5, nil, []string{b}},
		{"all that were missed", []string{c, a, b}, 5, nil, []string{a, b, c}},
		{"room for one more", []string{a + ".gz", b + ".gz", c}, 4, []string{a + ".gz"}, []string{c}},
		{"too many by far", []string{a + ".gz", b, c, d}, 3, []string{a + ".gz", b, c}, []string{d}},
		{"no more than two files", []string{a, b + ".gz"}, 2, []string{a, b + ".gz"}, nil},
		{"others' files", []string{"0.log.1", "0.log.old", "notes"}, 2, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			remove, compress := makeRoom(tc.files, "0.log", tc.maxFiles)
			require.Equal(t, tc.remove, remove)
			require.Equal(t, tc.compress, compress)
		})
	}
}

func TestNextStamp(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 999, time.UTC)
	for newest, want := range map[string]string{
		"":                         "20260701-120000",
		"0.log.20260701-115959":    "20260701-120000",
		"0.log.20260701-120000":    "20260701-120001",
		"0.log.20260701-120000.gz": "20260701-120001",
		"0.log.20261231-235959":    "20270101-000000",
	} {
		require.Equal(t, want, nextStamp([]string{"0.log.20200101-000000", newest}, "0.log", now), newest)
	}
}
