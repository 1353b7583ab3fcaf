// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// source is a file of the package under test with its sites.
type source struct {
	path    string // absolute
	text    []byte
	sites   []*site
	mutants []*mutant
}

// generator finds the sites of one file.
type generator struct {
	*source
	pkg      *packages.Package
	file     *ast.File
	folder   string
	decider  bool
	function string             // of the declaration at hand
	results  []*types.Signature // of the functions around the node at hand, innermost last
	firstID  int
}

// generate returns the mutants of one file; their ids begin at firstID.
func generate(pkg *packages.Package, file *ast.File, folder, path string, text []byte, firstID int) *source {
	g := &generator{
		source: &source{path: path, text: text}, pkg: pkg, file: file, folder: folder,
		decider: isDecider(file), firstID: firstID,
	}
	for _, d := range file.Decls {
		g.declaration(d)
	}
	return g.source
}

// silent has the functions with text for humans only.
var silent = []string{"String", "Error", "GoString", "MarshalLogObject"}

func (g *generator) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Body == nil || slices.Contains(silent, d.Name.Name) {
			return
		}
		g.function = d.Name.Name
		if d.Recv != nil && len(d.Recv.List) > 0 {
			receiver, _, _ := strings.Cut(strings.TrimPrefix(g.short(d.Recv.List[0].Type), "*"), "[")
			g.function = receiver + "." + g.function
		}
		g.results = []*types.Signature{g.pkg.TypesInfo.Defs[d.Name].Type().(*types.Signature)}
		g.walk(d.Body, nil)
		g.results = nil
	case *ast.GenDecl:
		if d.Tok == token.VAR {
			g.function = "var"
			g.walk(d, nil)
		}
	}
}

// walk visits n's tree. parent is the node around n.
func (g *generator) walk(n, parent ast.Node) {
	if g.skipped(n, parent) {
		return
	}
	if f, ok := n.(*ast.FuncLit); ok {
		g.results = append(g.results, g.typeOf(f).(*types.Signature))
		defer func() { g.results = g.results[:len(g.results)-1] }()
	}
	g.mutate(n, parent)
	if e, ok := n.(ast.Expr); ok && g.constant(e) {
		return // only the outermost constant expression changes
	}
	ast.Inspect(n, func(child ast.Node) bool {
		if child == nil || child == n {
			return child == n
		}
		g.walk(child, n)
		return false
	})
}

// skipped reports whether nothing at or below n is mutated.
func (g *generator) skipped(n, parent ast.Node) bool {
	switch n := n.(type) {
	case *ast.ArrayType, *ast.StructType, *ast.InterfaceType, *ast.FuncType, *ast.MapType, *ast.ChanType, *ast.CommentGroup:
		return true
	case *ast.GenDecl:
		return n.Tok != token.VAR
	case *ast.CallExpr:
		return g.untouchable(n)
	case ast.Expr:
		if !g.constant(n) {
			return false
		}
		switch p := parent.(type) {
		case *ast.CaseClause:
			return true
		case *ast.KeyValueExpr:
			return p.Key == n
		case *ast.BinaryExpr:
			return slices.Contains([]token.Token{token.SHL, token.SHR, token.AND, token.OR, token.AND_NOT}, p.Op)
		case *ast.CallExpr:
			return g.capacity(n, p)
		}
	}
	return false
}

// capacity reports whether e is the capacity in a call of make, which changes no
// result.
func (g *generator) capacity(e ast.Expr, c *ast.CallExpr) bool {
	id, ok := c.Fun.(*ast.Ident)
	if !ok || id.Name != "make" {
		return false
	}
	switch g.typeOf(c).Underlying().(type) {
	case *types.Map:
		return c.Args[0] != e
	case *types.Slice:
		return len(c.Args) == 3 && c.Args[2] == e
	}
	return false
}

// untouchable reports whether c logs, panics or synchronizes. Logs and panics are
// not behaviour. Without synchronization the test binary hangs or races.
func (g *generator) untouchable(c *ast.CallExpr) bool {
	if id, ok := c.Fun.(*ast.Ident); ok && id.Name == "panic" {
		return true
	}
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	object := g.pkg.TypesInfo.Uses[sel.Sel]
	if object == nil || object.Pkg() == nil {
		return false
	}
	switch object.Pkg().Path() {
	case "go.uber.org/zap":
		return true
	case "sync":
		return slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock", "Wait", "Done", "Add"}, sel.Sel.Name)
	}
	return false
}

// mutate adds the sites of n itself.
func (g *generator) mutate(n, parent ast.Node) {
	switch n := n.(type) {
	case *ast.BlockStmt:
		g.statements(n.List)
	case *ast.CommClause:
		g.statements(n.Body)
	case *ast.CaseClause:
		g.caseClause(n)
	case *ast.SwitchStmt:
		g.boolCases(n)
	case *ast.IfStmt:
		g.condition(n.Cond, "if")
	case *ast.ForStmt:
		if n.Cond != nil {
			g.loopCondition(n.Cond)
		}
	case *ast.RangeStmt:
		g.loop(n)
	case *ast.ReturnStmt:
		g.returns(n)
	case *ast.CompositeLit:
		g.fields(n)
	case *ast.BinaryExpr:
		g.binary(n, g.isCondition(n, parent))
	case *ast.UnaryExpr:
		if n.Op == token.NOT && !g.isCondition(n, parent) && !isReturn(parent) {
			g.wrap(n, "not", g.short(n)+" → without !", "mutNot")
		}
	case *ast.CallExpr:
		g.call(n, parent)
	}
	if e, ok := n.(ast.Expr); ok && g.constant(e) {
		g.integer(e)
	}
}

// isCondition reports whether e is the whole condition of an if or a case. There
// "never" and "always" are equivalent to a negation.
func (g *generator) isCondition(e ast.Expr, parent ast.Node) bool {
	switch p := parent.(type) {
	case *ast.IfStmt:
		return p.Cond == e
	case *ast.CaseClause:
		return true
	}
	return false
}

func isReturn(n ast.Node) bool { _, ok := n.(*ast.ReturnStmt); return ok }

// mutant notes a fault at n.
func (g *generator) mutant(n ast.Node, kind, text string) *mutant {
	from, to := g.pkg.Fset.Position(n.Pos()), g.pkg.Fset.Position(n.End())
	m := &mutant{
		id: g.firstID + len(g.mutants), pkg: g.folder, file: filepath.Base(g.path), line: from.Line, end: from.Line,
		function: g.function, kind: kind, text: text, decider: g.decider,
	}
	if _, ok := n.(ast.Expr); ok {
		m.end = to.Line
	}
	g.mutants = append(g.mutants, m)
	return m
}

// site replaces the text between two positions.
func (g *generator) site(lo, hi token.Pos, mutants []*mutant, f func(in inner) string) {
	g.sites = append(g.sites, &site{
		lo: g.offset(lo), hi: g.offset(hi), mutants: mutants, render: f,
		line: g.pkg.Fset.Position(lo).Line, end: g.pkg.Fset.Position(hi).Line,
	})
}

// wrap adds a site that calls hook(id, e) in the place of e.
func (g *generator) wrap(e ast.Expr, kind, text, hook string) {
	m := g.mutant(e, kind, text)
	lo, hi := g.offset(e.Pos()), g.offset(e.End())
	g.site(e.Pos(), e.End(), []*mutant{m}, func(in inner) string {
		return fmt.Sprintf("%s(%d, %s)", hook, m.id, in(lo, hi))
	})
}

func (g *generator) offset(p token.Pos) int { return g.pkg.Fset.Position(p).Offset }

// short returns n's text on one line of at most 90 characters.
func (g *generator) short(n ast.Node) string {
	text := strings.Join(strings.Fields(string(g.text[g.offset(n.Pos()):g.offset(n.End())])), " ")
	if runes := []rune(text); len(runes) > 90 {
		return string(runes[:89]) + "…"
	}
	return text
}

func (g *generator) typeOf(e ast.Expr) types.Type { return g.pkg.TypesInfo.TypeOf(e) }

func (g *generator) constant(e ast.Expr) bool {
	tv, ok := g.pkg.TypesInfo.Types[e]
	return ok && tv.Value != nil
}

// isBool reports whether e's type is the plain bool.
func (g *generator) isBool(e ast.Expr) bool {
	b, ok := g.typeOf(e).(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// typeName returns the name of t in the file. The result is false if the name
// needs a package that the file does not import.
func (g *generator) typeName(t types.Type) (string, bool) {
	imported := true
	name := types.TypeString(t, func(p *types.Package) string {
		if p == g.pkg.Types {
			return ""
		}
		for _, spec := range g.file.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil && path == p.Path() {
				if spec.Name != nil {
					return spec.Name.Name
				}
				return p.Name()
			}
		}
		imported = false
		return p.Name()
	})
	return name, imported
}
