// SPDX-License-Identifier: Apache-2.0

package statuspatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"3":                             3 * time.Second,
		"0":                             0,
		"-5":                            0,
		"soon":                          0,
		"99999999999":                   longestRetryAfter,
		"999999999999999999999999":      0,
		"Sat, 21 Nov 2026 08:00:07 GMT": 7 * time.Second,
		"Sat, 21 Nov 2026 07:00:00 GMT": 0,
		"Sun, 21 Nov 2027 08:00:00 GMT": 365 * 24 * time.Hour,
		"Thu, 21 Nov 2126 08:00:00 GMT": longestRetryAfter,
	} {
		assert.Equal(t, want, parseRetryAfter(value, now), value)
	}
}
