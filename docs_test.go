// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// namedTest is a test that a page names.
type namedTest struct{ dir, name string }

// splitTests reads "dir TestX, dir TestY".
func splitTests(s string) (out []namedTest) {
	for item := range strings.SplitSeq(s, ", ") {
		if dir, name, ok := strings.Cut(item, " "); ok {
			out = append(out, namedTest{dir, name})
		}
	}
	return out
}

// testExists reports whether a package has a test of that name.
func testExists(t *testing.T, test namedTest) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(test.dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+test.name+"(") {
			return true
		}
	}
	return false
}

// TestPodSpecNamesTests fails when docs/podspec.md names a test that is not
// there any more.
func TestPodSpecNamesTests(t *testing.T) {
	for _, section := range podspecSections {
		for _, row := range section.rows {
			for _, test := range splitTests(row.seen) {
				assert.True(t, testExists(t, test), "%s: %s has no %s", row.path, test.dir, test.name)
			}
		}
	}
}
