// SPDX-License-Identifier: Apache-2.0

package logstamp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	for name, want := range map[string]struct {
		stamp  string
		gz, ok bool
	}{
		"0.log.20260102-030405":       {"20260102-030405", false, true},
		"0.log.20260102-030405.gz":    {"20260102-030405", true, true},
		"0.log.20260102-030405.gz.gz": {},
		"0.log.20260102-030405.5":     {},
		"0.log.20261302-030405":       {},
		"1.log.20260102-030405":       {},
		"0.log":                       {},
		"20260102-030405":             {},
	} {
		stamp, gz, ok := Of(name, "0.log")
		require.Equal(t, want.ok, ok, name)
		if ok {
			require.Equal(t, want, struct {
				stamp  string
				gz, ok bool
			}{stamp, gz, ok}, name)
		}
	}
}

func TestNext(t *testing.T) {
	at := time.Date(2026, 12, 31, 23, 59, 59, 999, time.FixedZone("", 3600))
	require.Equal(t, "20261231-235959", At(at))
	require.Equal(t, "20270101-000000", Next(At(at)))
	require.Empty(t, Next("99991231-235959"))
	require.Empty(t, Next("tomorrow"))
}
