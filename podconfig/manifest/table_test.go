// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// row is a line of the table of defaults in the package's documentation.
type row struct {
	path  string
	value any // nil if derived from another field
}

// tableOfDefaults reads the table.
func tableOfDefaults(t *testing.T) (rows []row) {
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	require.NoError(t, err)
	_, section, found := strings.Cut(f.Doc.Text(), "# Defaults\n")
	require.True(t, found)
	section, _, found = strings.Cut(section, "\n# ")
	require.True(t, found)
	spaces := regexp.MustCompile("  +")
	for line := range strings.Lines(section) {
		text, ok := strings.CutPrefix(line, "\t")
		if !ok {
			continue
		}
		fields := spaces.Split(strings.TrimSpace(text), 3)
		require.GreaterOrEqual(t, len(fields), 2, line)
		r := row{path: fields[0]}
		if !strings.HasPrefix(fields[1], "= ") {
			require.NoError(t, yaml.Unmarshal([]byte(fields[1]), &r.value), line)
		}
		rows = append(rows, r)
	}
	return rows
}

// matches reports whether the row describes the field and value.
func (r row) matches(path string, value any) bool {
	if prefix, ok := strings.CutSuffix(r.path, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return r.path == path && (r.value == nil || fmt.Sprint(r.value) == fmt.Sprint(value))
}

// TestTableOfDefaults compares the table with the effect of SetDefaults on pods with unset fields.
// Every field set or changed must be in the table with its value, and every row of the table must
// be such a field.
func TestTableOfDefaults(t *testing.T) {
	in, err := os.ReadFile("testdata/defaults.yaml")
	require.NoError(t, err)
	var list v1.PodList
	require.NoError(t, yaml.UnmarshalStrict(in, &list))
	rows := tableOfDefaults(t)
	require.Greater(t, len(rows), 50)
	used := make([]bool, len(rows))
	for i := range list.Items {
		before := map[string]any{}
		flatten("", asMap(t, list.Items[i]), before)
		manifest.SetDefaults(&list.Items[i])
		after := map[string]any{}
		flatten("", asMap(t, list.Items[i]), after)
		for path, value := range after {
			if was, there := before[path]; there && fmt.Sprint(was) == fmt.Sprint(value) {
				continue
			}
			matched := false
			for j, r := range rows {
				if r.matches(inTable(path), value) {
					matched, used[j] = true, true
				}
			}
			assert.True(t, matched, "not in the table: %s %v", inTable(path), value)
		}
		for path, value := range before {
			_, there := after[path]
			assert.True(t, there || fmt.Sprint(value) == "map[]", "%s was removed", path)
		}
	}
	for j, r := range rows {
		assert.True(t, used[j], "the table says %s %v, and nothing sets it", r.path, r.value)
	}
	golden(t, list, "testdata/defaults.golden.yaml")
}

// golden compares with a file, or writes it with -rewrite.
func golden(t *testing.T, v any, path string) {
	t.Helper()
	out, err := yaml.Marshal(v)
	require.NoError(t, err)
	if *rewrite {
		require.NoError(t, os.WriteFile(path, out, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(out))
}

// flatten collects the leaves of a tree by path. An empty object or list is a leaf.
func flatten(path string, v any, leaves map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			flatten(strings.TrimPrefix(path+"."+key, "."), child, leaves)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, child := range v {
			flatten(fmt.Sprintf("%s[%d]", path, i), child, leaves)
		}
		if len(v) > 0 {
			return
		}
	}
	leaves[path] = v
}

var tableWords = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`^spec\.(initC|ephemeralC|c)ontainers\[\d+\]`), "container"},
	{regexp.MustCompile(`^spec\.volumes\[\d+\]`), "volume"},
	{regexp.MustCompile(`\.(liveness|readiness|startup)Probe`), ".probe"},
	{regexp.MustCompile(`\.lifecycle\.(postStart|preStop)`), ".hook"},
	{regexp.MustCompile(`\[\d+\]`), "[]"},
}

// inTable returns the path of a field in the notation of the table.
func inTable(path string) string {
	for _, w := range tableWords {
		path = w.pattern.ReplaceAllString(path, w.word)
	}
	return path
}
