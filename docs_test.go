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

// notYet is how many tests named after issues of the kubelet the page of
// differences may be behind.
const notYet = 10

// TestDifferencesAreNotFarBehind fails when tests are named after issues of the
// kubelet and docs/differences.md does not have them.
func TestDifferencesAreNotFarBehind(t *testing.T) {
	page, err := os.ReadFile("docs/differences.md")
	require.NoError(t, err)
	have := map[namedTest]bool{}
	for _, m := range namedInPage.FindAllStringSubmatch(string(page), -1) {
		have[namedTest{m[1], m[2]}] = true
	}
	sources, _ := readSources(t)
	var missing []namedTest
	for name, text := range sources {
		for _, m := range upstreamTests.FindAllStringSubmatch(string(text), -1) {
			if test := (namedTest{filepath.ToSlash(filepath.Dir(name)), m[1]}); !have[test] {
				missing = append(missing, test)
			}
		}
	}
	assert.LessOrEqual(t, len(missing), notYet, "docs/differences.md has no %v", missing)
	assert.Greater(t, len(have), 80)
}

var (
	flagInPage   = regexp.MustCompile("(?:^|[`\\s(])--([a-z][a-z0-9-]+)")
	flagInSource = regexp.MustCompile(`set\.\w+\(&[\w.]+, "([a-z0-9-]+)"`)
)

// TestPagesNameFlags fails when a page names a flag that the agent does not have,
// or docs/running.md is far behind.
func TestPagesNameFlags(t *testing.T) {
	have := map[string]bool{}
	sources, _ := readSources(t)
	for name, text := range sources {
		if filepath.Dir(name) == "examples/nodeagent" && !strings.HasSuffix(name, "_test.go") {
			for _, m := range flagInSource.FindAllStringSubmatch(string(text), -1) {
				have[m[1]] = true
			}
		}
	}
	require.True(t, have["pod-manifest-path"], "the flags must have been read")
	seen := map[string]bool{"help": true}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range flagInPage.FindAllStringSubmatch(string(text), -1) {
			assert.True(t, have[m[1]] || m[1] == "help", "%s: there is no --%s", page, m[1])
			seen[m[1]] = true
		}
	}
	var missing []string
	for name := range have {
		if !seen[name] {
			missing = append(missing, name)
		}
	}
	assert.LessOrEqual(t, len(missing), notYet, "docs/running.md has no %v", missing)
}

// quoted is a piece of code in a page, behind the name of the file that it is from.
var quoted = regexp.MustCompile("(?s)<!-- from (\\S+) -->\n```golang\n(.*?)```\n")

// TestPagesQuoteCodeAsItIs checks that code which stands in a page is that of a file that the tests run.
func TestPagesQuoteCodeAsItIs(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	quotes := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, quote := range quoted.FindAllSubmatch(text, -1) {
			source, err := os.ReadFile(string(quote[1]))
			require.NoError(t, err, page)
			assert.Contains(t, string(source), string(quote[2]), page)
			quotes++
		}
		assert.Equal(t, strings.Count(string(text), "```golang"), len(quoted.FindAll(text, -1)), "%s: a quote needs the file's name before it", page)
	}
	assert.NotZero(t, quotes)
}

// TestUpdatesCostAnAgentTenLines counts the lines that a custom agent needs for transactional updates. The lines are
// those of the updates' Example, which quotes are compared with.
func TestUpdatesCostAnAgentTenLines(t *testing.T) {
	text, err := os.ReadFile("docs/updates.md")
	require.NoError(t, err)
	quotes := quoted.FindAllSubmatch(text, -1)
	require.Len(t, quotes, 1)
	code := string(quotes[0][2])
	for _, call := range []string{"updates.New(", "node.New(", "Sources: ", "Features: "} {
		assert.Contains(t, code, call, "the quote is not whole")
	}
	assert.LessOrEqual(t, strings.Count(code, "\n"), 10)
}
