// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"os"
	"path/filepath"
	"regexp"
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

var (
	namedInPage   = regexp.MustCompile("`([a-z0-9/]+)` (Test[A-Za-z0-9_]+|testdata/[A-Za-z0-9_.]+)")
	upstreamTests = regexp.MustCompile(`(?m)^func (TestUpstream[0-9]{3,}[A-Za-z0-9_]*)\(`)
)

// TestPagesNameWhatIsThere fails when a page names a test or a script that is
// not there any more, or a file.
func TestPagesNameWhatIsThere(t *testing.T) {
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range namedInPage.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[2], "testdata/") {
				assert.FileExists(t, filepath.Join(m[1], m[2]), "named in %s", page)
				continue
			}
			assert.True(t, testExists(t, namedTest{m[1], m[2]}), "%s: %s has no %s", page, m[1], m[2])
		}
		for _, m := range localLink.FindAllStringSubmatch(string(text), -1) {
			assert.FileExists(t, filepath.Join(filepath.Dir(page), m[1]), "linked in %s", page)
		}
	}
}

var localLink = regexp.MustCompile(`\]\(([A-Za-z0-9_./-]+\.md)\)`)

// TestDifferencesAreComplete fails when a test is named after an issue of the
// kubelet and docs/differences.md does not have it.
func TestDifferencesAreComplete(t *testing.T) {
	page, err := os.ReadFile("docs/differences.md")
	require.NoError(t, err)
	have := map[namedTest]bool{}
	for _, m := range namedInPage.FindAllStringSubmatch(string(page), -1) {
		have[namedTest{m[1], m[2]}] = true
	}
	sources, _ := readSources(t)
	n := 0
	for name, text := range sources {
		for _, m := range upstreamTests.FindAllStringSubmatch(string(text), -1) {
			n++
			test := namedTest{filepath.ToSlash(filepath.Dir(name)), m[1]}
			assert.True(t, have[test], "docs/differences.md has no `%s` %s", test.dir, test.name)
		}
	}
	assert.Greater(t, n, 80)
}
