// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codeOf returns the code blocks of a doc comment.
func codeOf(text string) []string {
	var out []string
	for _, block := range new(comment.Parser).Parse(text).Content {
		if code, ok := block.(*comment.Code); ok {
			out = append(out, code.Text)
		}
	}
	return out
}

var (
	leftOut = regexp.MustCompile(`(?m), …|…, |…|(^|[({\s])\.\.\.([)}\s]|$)`)
	noGo    = regexp.MustCompile(`(?m)^\s*\$ `)
)

// parseFragment makes a file of declarations or statements, with … for what was
// left out; nil if it is no Go.
func parseFragment(code string) *ast.File {
	if noGo.MatchString(code) {
		return nil
	}
	code = leftOut.ReplaceAllString(code, "$1$2")
	for _, whole := range []string{"package p\n" + code, "package p\nfunc _() {\n" + code + "\n}"} {
		file, err := parser.ParseFile(token.NewFileSet(), "", whole, parser.SkipObjectResolution)
		if err == nil {
			return file
		}
	}
	return nil
}

func (e *exports) add(file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				e.names[d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				e.addSpec(spec)
			}
		}
	}
}

func (e *exports) addSpec(spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			e.names[name.Name] = true
		}
	case *ast.TypeSpec:
		e.names[s.Name.Name] = true
		if typ, ok := s.Type.(*ast.StructType); ok {
			fields := map[string]bool{}
			for _, f := range typ.Fields.List {
				for _, name := range f.Names {
					fields[name.Name] = true
				}
				if len(f.Names) == 0 {
					fields[embeddedName(f.Type)] = true
				}
			}
			e.fields[s.Name.Name] = fields
		}
	}
}

func embeddedName(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return embeddedName(t.X)
	case *ast.SelectorExpr:
		return t.Sel.Name
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// unknownNames are the names that a fragment takes from a package of this module
// and that no package of that name has.
func (known packageNames) unknownNames(file *ast.File) (wrong []string) {
	own := map[string]bool{} // variables of the fragment, which may be called as a package is
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok {
					own[id.Name] = true
				}
			}
		case *ast.Field:
			for _, id := range n.Names {
				own[id.Name] = true
			}
		}
		return true
	})
	lookUp := func(e ast.Expr) (*exports, string, string) {
		if sel, ok := e.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && !own[id.Name] && known[id.Name] != nil && !slices.Contains(foreignNames, id.Name) {
				return known[id.Name], id.Name, sel.Sel.Name
			}
		}
		return nil, "", ""
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, pkg, name := lookUp(n); of != nil && !of.names[name] {
				wrong = append(wrong, pkg+"."+name)
			}
		case *ast.CompositeLit:
			of, pkg, name := lookUp(n.Type)
			if of == nil || of.fields[name] == nil {
				return true
			}
			for _, element := range n.Elts {
				if kv, ok := element.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok && !of.fields[name][key.Name] {
						wrong = append(wrong, pkg+"."+name+"."+key.Name)
					}
				}
			}
		}
		return true
	})
	return wrong
}

// packageNames are the exports of this module's packages by their names. Those
// of one name are taken together.
type packageNames map[string]*exports

// foreignNames are packages of others that have the name of one of ours.
var foreignNames = []string{"record"}

func TestUnknownNames(t *testing.T) {
	of := &exports{map[string]bool{}, map[string]map[string]bool{}}
	file, err := parser.ParseFile(token.NewFileSet(), "", "package q\nfunc New() {}\ntype Options struct{ A int; base }\n", 0)
	require.NoError(t, err)
	of.add(file)
	known := packageNames{"q": of}
	for code, want := range map[string][]string{
		"x, err := q.New(q.Options{A: 1, …})":     nil,
		"x := q.Old()\n...\nx.Run(ctx)":           {"q.Old"},
		"func f() { q.New(q.Options{B: 1}) }":     {"q.Options.B"},
		"q := other()\nq.Anything()":              nil,
		"store := fmt.Sprint(q.Options{base: 1})": nil,
	} {
		fragment := parseFragment(code)
		require.NotNil(t, fragment, code)
		assert.Equal(t, want, known.unknownNames(fragment), code)
	}
	assert.Nil(t, parseFragment("a ──> b"))
	assert.Nil(t, parseFragment("go test -run 'x' ./y"))
}
