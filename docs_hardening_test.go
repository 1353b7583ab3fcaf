// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hardeningRows returns the rows of the table under "## Hardening" in a page, each with its cells.
func hardeningRows(page string) (rows [][]string) {
	_, section, _ := strings.Cut(page, "\n## Hardening\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !ok || strings.HasPrefix(line, "point |") {
			continue
		}
		rows = append(rows, strings.Split(strings.TrimSuffix(line, " |"), " | "))
	}
	return rows
}

// Every point of the hardening guides in docs/server.md says what holds here, and names a test.
// TestPagesNameWhatIsThere checks that the tests exist.
func TestHardeningHasTests(t *testing.T) {
	page, err := os.ReadFile("docs/server.md")
	require.NoError(t, err)
	rows := hardeningRows(string(page))
	require.GreaterOrEqual(t, len(rows), 24)
	seen := map[string]bool{}
	for _, row := range rows {
		if !assert.Len(t, row, 3, "%q", row) {
			continue
		}
		assert.False(t, seen[row[0]], "%q stands twice", row[0])
		seen[row[0]] = true
		assert.NotEmpty(t, row[1], "%q: what holds here?", row[0])
		tests := namedInPage.FindAllString(row[2], -1)
		assert.NotEmpty(t, tests, "%q has no test", row[0])
		assert.Equal(t, strings.Join(tests, ", "), row[2], "%q: the column has tests only", row[0])
	}
}
