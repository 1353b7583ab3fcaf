// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxSameBody is the greatest number of lines of a function that stands twice, with its braces.
const maxSameBody = 7

// allowedCopies are the functions that may have the body of another function, with the reason.
var allowedCopies = map[string]string{}

// TestNoFunctionStandsTwice looks for functions that differ only in the names of parameters, results,
// receivers and variables. Such copies escape TestNoRunOfLinesStandsTwice.
func TestNoFunctionStandsTwice(t *testing.T) {
	seen := map[string]token.Position{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"testdata", "bin", "dist", ".git"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		for body, at := range anonymousBodies(t, fset, file) {
			first, again := seen[body]
			if seen[body] = at; again && allowedCopies[at.Filename] == "" {
				t.Errorf("%s and %s: use one function, in internal if several packages need it", first, at)
			}
		}
		return nil
	}))
	require.NotEmpty(t, seen)
}

// anonymousBodies returns the bodies of the functions of a file that have more than maxSameBody lines,
// with numbers in place of the names that the functions declare.
func anonymousBodies(t *testing.T, fset *token.FileSet, file *ast.File) map[string]token.Position {
	t.Helper()
	all := map[string]token.Position{}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil || fset.Position(fn.Body.Rbrace).Line-fset.Position(fn.Body.Lbrace).Line < maxSameBody {
			continue
		}
		declared, fields := declarations(fn)
		names := map[string]string{}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || !declared[id.Name] || fields[id] {
				return true
			}
			if names[id.Name] == "" {
				names[id.Name] = fmt.Sprint("v", len(names))
			}
			id.Name = names[id.Name]
			return true
		})
		var body strings.Builder
		require.NoError(t, format.Node(&body, fset, fn.Body))
		if strings.Count(body.String(), "\n") >= maxSameBody {
			all[body.String()] = fset.Position(fn.Pos())
		}
	}
	return all
}

// declarations returns the names that a function declares, and its identifiers that are names of fields
// and methods.
func declarations(fn *ast.FuncDecl) (declared map[string]bool, fields map[*ast.Ident]bool) {
	declared, fields = map[string]bool{}, map[*ast.Ident]bool{}
	declare := func(all ...ast.Expr) {
		for _, e := range all {
			if id, ok := e.(*ast.Ident); ok && id.Name != "_" {
				declared[id.Name] = true
			}
		}
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, id := range n.Names {
				declare(id)
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				declare(id)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				declare(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				declare(n.Key, n.Value)
			}
		case *ast.SelectorExpr:
			fields[n.Sel] = true
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok {
				fields[id] = true
			}
		}
		return true
	})
	return declared, fields
}

func TestSameFunctionsAreSeen(t *testing.T) {
	const find = `func find(list []T, name string) *T {
	for i := range list {
		other := list[i]
		if other.Name == name {
			return &list[i]
		}
	}
	return nil
}
`
	for _, tc := range []struct {
		name, other, with string
		differ            bool
	}{
		{name: "equal", other: "x", with: "x"},
		{"another name of a parameter", "list", "items", false},
		{"another name of a variable", "other", "o", false},
		{"another receiver", "func find(", "func (x *X) find(", false},
		{"another constant", "nil", "none", true},
		{"another type", "[]T", "[]U", false},
		{"another field", "other.Name", "other.Type", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := map[string]bool{}
			for _, src := range []string{find, strings.ReplaceAll(find, tc.other, tc.with)} {
				fset := token.NewFileSet()
				file, err := parser.ParseFile(fset, "p.go", "package p\n\n"+src, 0)
				require.NoError(t, err)
				for body := range anonymousBodies(t, fset, file) {
					all[body] = true
				}
			}
			want := 1
			if tc.differ {
				want = 2
			}
			assert.Len(t, all, want)
		})
	}
}
