// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var numbered = regexp.MustCompile(`(?m)^//  \d+\. `)

// TestPartsLeaveFewDuties reads the documentation of the parts: every caller of a part has one to three
// duties.
func TestPartsLeaveFewDuties(t *testing.T) {
	for _, part := range []string{"podconfig", "podworkers", "runtime", "prober", "volumemanager", "imagegc", "statusmanager"} {
		text, err := os.ReadFile(part + "/doc.go")
		require.NoError(t, err)
		_, section, ok := strings.Cut(string(text), "\n// # The caller's duties\n")
		require.True(t, ok, "%s has no section about the caller's duties", part)
		section, _, _ = strings.Cut(section, "\n// # ")
		n := len(numbered.FindAllString(section, -1))
		assert.Positive(t, n, part)
		assert.LessOrEqual(t, n, 3, "%s: a duty of some callers belongs below, with its condition", part)
	}
}
