// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// statements deletes calls, assignments, sends, breaks and continues.
func (g *generator) statements(list []ast.Stmt) {
	for _, s := range list {
		kind := g.deletion(s)
		if kind == "" {
			continue
		}
		m := g.mutant(s, kind, g.short(s))
		lo, hi := g.offset(s.Pos()), g.offset(s.End())
		g.site(s.Pos(), s.End(), []*mutant{m}, func(in inner) string {
			return fmt.Sprintf("if !mutAt(%d) { %s }", m.id, in(lo, hi))
		})
	}
}

// deletion returns the kind of the mutant without s, or "" if s has no mutant.
func (g *generator) deletion(s ast.Stmt) string {
	switch s := s.(type) {
	case *ast.ExprStmt:
		if c, ok := s.X.(*ast.CallExpr); ok && !g.untouchable(c) {
			return "delete-call"
		}
	case *ast.DeferStmt:
		if !g.untouchable(s.Call) {
			return "delete-defer"
		}
	case *ast.AssignStmt:
		blank := len(s.Lhs) == 1
		if blank {
			id, ok := s.Lhs[0].(*ast.Ident)
			blank = ok && id.Name == "_"
		}
		if s.Tok != token.DEFINE && !blank {
			return "delete-assign"
		}
	case *ast.IncDecStmt:
		return "delete-assign"
	case *ast.SendStmt:
		return "delete-send"
	case *ast.BranchStmt:
		if s.Tok == token.CONTINUE || s.Tok == token.BREAK {
			return "delete-" + s.Tok.String()
		}
	}
	return ""
}

// caseClause deletes statements of a case, and the whole body of a case that
// compares with a value or a type.
func (g *generator) caseClause(c *ast.CaseClause) {
	g.statements(c.Body)
	if len(c.Body) == 0 || len(c.List) == 0 || g.tagless(c) {
		return
	}
	if _, fall := c.Body[len(c.Body)-1].(*ast.BranchStmt); fall || terminates(c.Body[len(c.Body)-1]) {
		return
	}
	texts := make([]string, len(c.List))
	for i, e := range c.List {
		texts[i] = g.short(e)
	}
	m := g.mutant(c, "case-empty", "case "+strings.Join(texts, ", ")+": nothing")
	g.site(c.Colon+1, c.Colon+1, []*mutant{m}, func(inner) string {
		return fmt.Sprintf(" if mutAt(%d) { break };", m.id)
	})
}

// terminates reports whether s may make a switch a terminating statement. A break
// would undo that.
func terminates(s ast.Stmt) bool {
	switch s.(type) {
	case *ast.ReturnStmt, *ast.IfStmt, *ast.ForStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.BlockStmt:
		return true
	}
	return false
}

// tagless reports whether c's expressions are conditions.
func (g *generator) tagless(c *ast.CaseClause) bool {
	return !g.constant(c.List[0]) && g.typeOf(c.List[0]) != nil && g.isBool(c.List[0])
}

// boolCases treats the cases of a switch without a tag as conditions.
func (g *generator) boolCases(s *ast.SwitchStmt) {
	if s.Tag != nil {
		return
	}
	for _, c := range s.Body.List {
		for _, e := range c.(*ast.CaseClause).List {
			g.condition(e, "case")
		}
	}
}

// condition makes e constant.
func (g *generator) condition(e ast.Expr, what string) {
	if g.constant(e) || !g.isBool(e) {
		return
	}
	never := g.mutant(e, what+"-never", g.short(e)+" → false")
	always := g.mutant(e, what+"-always", g.short(e)+" → true")
	lo, hi := g.offset(e.Pos()), g.offset(e.End())
	g.site(e.Pos(), e.End(), []*mutant{never, always}, func(in inner) string {
		return fmt.Sprintf("(!mutAt(%d) && (mutAt(%d) || (%s)))", never.id, always.id, in(lo, hi))
	})
}

// loopCondition makes a loop end before the first turn. An endless loop would
// only time out.
func (g *generator) loopCondition(e ast.Expr) {
	if g.constant(e) || !g.isBool(e) {
		return
	}
	m := g.mutant(e, "loop-never", "for "+g.short(e)+": never")
	lo, hi := g.offset(e.Pos()), g.offset(e.End())
	g.site(e.Pos(), e.End(), []*mutant{m}, func(in inner) string {
		return fmt.Sprintf("(!mutAt(%d) && (%s))", m.id, in(lo, hi))
	})
}

// loop makes a range loop run not at all, or only once.
func (g *generator) loop(n *ast.RangeStmt) {
	if _, ok := g.typeOf(n.X).Underlying().(*types.Chan); ok {
		return
	}
	never := g.mutant(n, "loop-never", "for … range "+g.short(n.X)+": never")
	once := g.mutant(n, "loop-once", "for … range "+g.short(n.X)+": once only")
	g.site(n.Body.Lbrace+1, n.Body.Lbrace+1, []*mutant{never}, func(inner) string {
		return fmt.Sprintf(" if mutAt(%d) { break };", never.id)
	})
	g.site(n.Body.Rbrace, n.Body.Rbrace, []*mutant{once}, func(inner) string {
		return fmt.Sprintf(";if mutAt(%d) { break }; ", once.id)
	})
}

// returns makes each result zero, or its opposite.
func (g *generator) returns(n *ast.ReturnStmt) {
	if len(g.results) == 0 {
		return
	}
	results := g.results[len(g.results)-1].Results()
	if results.Len() != len(n.Results) {
		return
	}
	for i, e := range n.Results {
		g.zero(e, results.At(i).Type(), "return-zero")
	}
}

// fields leaves out each field of a struct literal.
func (g *generator) fields(n *ast.CompositeLit) {
	t := g.typeOf(n)
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for _, element := range n.Elts {
		kv, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		for f := range s.Fields() {
			if id, ok := kv.Key.(*ast.Ident); ok && f.Name() == id.Name {
				g.zero(kv.Value, f.Type(), "field-zero")
			}
		}
	}
}
