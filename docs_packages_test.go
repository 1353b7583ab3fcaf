// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exports are the exported names of packages with one name, and the fields of
// their structs.
type exports struct {
	names  map[string]bool
	fields map[string]map[string]bool // by type
}

// TestPackageDocumentation reads the code in the packages' documentation and
// fails when it names something that is not there. It is no compiler: what
// values are, and what methods they have, the packages' Examples show.
func TestPackageDocumentation(t *testing.T) {
	sources, inModule := readSources(t)
	known, texts := packageNames{}, map[string]string{}
	fset := token.NewFileSet()
	for name, text := range sources {
		if strings.HasSuffix(name, "_test.go") || !inModule(name) {
			continue
		}
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue // TestSource reports it
		}
		of := known[file.Name.Name]
		if of == nil {
			of = &exports{map[string]bool{}, map[string]map[string]bool{}}
			known[file.Name.Name] = of
		}
		of.add(file)
		if file.Doc != nil {
			texts[path.Dir(name)] += file.Doc.Text()
		}
	}
	checked := 0
	for dir, text := range texts {
		blocks := codeOf(text)
		for i, block := range blocks {
			file := parseFragment(block)
			if slices.Contains(parts, dir) && i == 0 {
				require.NotNil(t, file, "the documentation of %s begins with Go that wires it:\n%s", dir, block)
			}
			if file == nil {
				continue // a diagram, or a command
			}
			checked++
			for _, wrong := range known.unknownNames(file) {
				t.Errorf("the documentation of %s has %s, which is not there:\n%s", dir, wrong, block)
			}
		}
		if slices.Contains(parts, dir) {
			assert.NotEmpty(t, blocks, "%s shows no wiring", dir)
			first, _, _ := strings.Cut(strings.TrimSpace(text), "\n# ")
			second := text[strings.Index(text, "\n# ")+1:]
			assert.True(t, len(codeOf(first)) > 0 || strings.HasPrefix(second, "# Wiring"), "the documentation of %s begins with its wiring", dir)
		}
	}
	assert.Greater(t, checked, 40)
}
