// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestYAMLIsReadLikeTheLibraryOfKubernetes compares the tree of each text with the result of
// sigs.k8s.io/yaml, except that nulls in objects are absent.
func TestYAMLIsReadLikeTheLibraryOfKubernetes(t *testing.T) {
	scalars := []string{
		"yes", "Yes", "YES", "yEs", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF", "y", "Y", "n", "N", "true", "True",
		"TRUE", "false", "tRue", "'yes'", `"no"`, "!!str yes", "!!str 5", "!!bool yes", "0", "1", "-1", "+1", "007", "0644", "0o644", "08",
		"0x1F", "0b101", "1_000", "1e3", "1.5", "-.5", "1.", ".5", "1e400", "123456789012345678901234567890", "18446744073709551615",
		"9223372036854775807", "2001-01-01", "2001-01-01T00:00:00Z", "12:30:45", "1:20", "'5'", "5m", "512Mi", "~x", "hello world",
		"!!binary aGVsbG8=", "!tag text", "!!int 5", "!!float 5", "|\n    text\n    more", ">\n    folded\n    text", "<<", "=", "1.2.3", "-", "a:b",
	}
	for _, scalar := range scalars {
		same(t, "a: "+scalar+"\n")
		same(t, "a:\n- "+scalar+"\n")
	}
	for _, key := range []string{"yes", "n", "5", "0644", "1.5", "'null'", "true", "2001-01-01", "? a", `"x y"`} {
		same(t, key+": 1\n")
	}
	for _, text := range []string{
		"a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n",
		"a: &x {b: 1, c: 2}\nd:\n  c: 3\n  <<: *x\n",
		"a: &x {b: 1}\ne: &y {b: 2, c: 3}\nd:\n  <<: [*x, *y]\n",
		"a: &x [1, 2]\nb: *x\n", "a: &x b\n*x : c\n", "{a: [1, {b: c}], d: 'it''s'}", "a: \"\\u00e9\\n\"\n", "a: # comment\n  b: 1 # more\n# end\n",
		"a:\n- b\n-\n  c: 1\n- - d\n", "? complex\n: value\n", "a: 'b\n  c'\n", "---\na: 1\n...\n", "a: |-\n  x\n\n  y\n", "a: >+\n  x\n\n",
	} {
		same(t, text)
	}
}

func same(t *testing.T, text string) {
	t.Helper()
	want, wantErr := yaml.YAMLToJSON([]byte(text))
	docs, err := readYAML([]byte(text), 1, 1<<20)
	if wantErr != nil {
		assert.Error(t, err, text)
		return
	}
	if !assert.NoError(t, err, text) {
		return
	}
	require.Len(t, docs, 1, text)
	got, err := canonicalJSON(docs[0].root)
	require.NoError(t, err, text)
	assert.JSONEq(t, string(want), string(got), text)
}

func TestLocate(t *testing.T) {
	const text = "metadata:\n  labels: {a.b/c: x, a: y}\nspec:\n  containers:\n  - name: main\n    env: &env\n    - name: A\n" +
		"      value: é\n  - {name: é, image: i}\n  - env: *env\n"
	docs, err := readYAML([]byte(text), 1, 1<<20)
	require.NoError(t, err)
	for path, want := range map[string]string{
		"":                                 "1:1",
		"metadata.labels[a.b/c]":           "2:19",
		"metadata.labels[a]":               "2:25",
		"metadata.name":                    "1:1",
		"spec":                             "3:1",
		"spec.containers":                  "4:3",
		"spec.containers[0]":               "5:5",
		"spec.containers[0].name":          "5:11",
		"spec.containers[0].image":         "5:5",
		"spec.containers[0].env[0].value":  "8:14",
		"spec.containers[0].env[7].value":  "6:5",
		"spec.containers[1].image":         "9:22",
		"spec.containers[2].env[0].name":   "7:13",
		"spec.containers[12].name":         "4:3",
		"spec.containers.name":             "4:3",
		"volumes[0].name":                  "1:1",
		"spec.containers[0].env[0].value.": "8:14",
	} {
		assert.Equal(t, want, locate(docs[0].nodes, path).String(), path)
	}
	assert.Equal(t, "8:7", locateKey(docs[0].nodes, "spec.containers[0].env[0].value").String())
	assert.Equal(t, "", Position{}.String())
}
