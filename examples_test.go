// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachPackageHasAnExample checks that every package that a program can import
// has an example that runs and whose output is compared.
func TestEachPackageHasAnExample(t *testing.T) {
	exports, examples := map[string]bool{}, map[string]bool{}
	fset := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case "internal", "testdata", "tools", "e2e", "bin", "dist", ".git":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if strings.HasSuffix(path, "_test.go") {
			for _, e := range doc.Examples(file) {
				examples[dir] = examples[dir] || e.Output != ""
			}
		} else if file.Name.Name != "main" && ast.FileExports(file) {
			exports[dir] = true
		}
		return nil
	}))
	require.True(t, exports["runtime"] && exports["podconfig/manifest"], "the packages must have been read")
	for dir := range exports {
		// The hierarchy of cgroups is the machine's, and an example of it has no output everywhere.
		if !examples[dir] && dir != "examples/nodeagent/node/cgroups/hierarchy" {
			t.Errorf("%s has no Example with an Output comment: show a user's first call", dir)
		}
	}
}
