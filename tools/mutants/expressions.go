// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
)

var (
	boundary = map[token.Token]token.Token{
		token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	}
	negation = map[token.Token]token.Token{
		token.LSS: token.GEQ, token.LEQ: token.GTR, token.GTR: token.LEQ, token.GEQ: token.LSS,
		token.EQL: token.NEQ, token.NEQ: token.EQL,
	}
	arithmetic = map[token.Token]token.Token{
		token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	}
)

// binary changes operators and drops operands. Conditions are not negated,
// because the mutants of condition are equivalent.
func (g *generator) binary(e *ast.BinaryExpr, isCondition bool) {
	if g.constant(e) {
		return
	}
	if to, ok := arithmetic[e.Op]; ok {
		g.arithmetic(e, to)
		return
	}
	if !g.isBool(e) {
		return
	}
	if e.Op == token.LAND || e.Op == token.LOR {
		g.logic(e)
		return
	}
	g.comparison(e, isCondition)
}

// logic swaps && and ||, and drops either operand. Each operand is written once,
// because copies would multiply in chains of operators.
func (g *generator) logic(e *ast.BinaryExpr) {
	other, absent := token.LOR, "mutAt(%d) || (%s)"
	if e.Op == token.LOR {
		other, absent = token.LAND, "!mutAt(%d) && (%s)"
	}
	swap := g.mutant(e, "logic", fmt.Sprintf("%s: %s → %s", g.short(e), e.Op, other))
	x := g.mutant(e.X, "drop-operand", "without ‹"+g.short(e.X)+"› in "+g.short(e))
	y := g.mutant(e.Y, "drop-operand", "without ‹"+g.short(e.Y)+"› in "+g.short(e))
	operand := func(in inner, m *mutant, e ast.Expr) string {
		return fmt.Sprintf("(mutIs(%d) != ("+absent+"))", swap.id, m.id, in(g.offset(e.Pos()), g.offset(e.End())))
	}
	g.site(e.Pos(), e.End(), []*mutant{swap, x, y}, func(in inner) string {
		// By De Morgan: x || y is the negation of !x && !y.
		return fmt.Sprintf("(mutAt(%d) != (%s %s %s))", swap.id, operand(in, x, e.X), e.Op, operand(in, y, e.Y))
	})
}

// comparison moves the boundary of an order, and negates.
func (g *generator) comparison(e *ast.BinaryExpr, isCondition bool) {
	var mutants []*mutant
	var operators []token.Token
	for _, to := range []token.Token{boundary[e.Op], negation[e.Op]} {
		if to != token.ILLEGAL && (to == boundary[e.Op] || !isCondition) {
			mutants = append(mutants, g.mutant(e, "compare", fmt.Sprintf("%s: %s → %s", g.short(e), e.Op, to)))
			operators = append(operators, to)
		}
	}
	if len(mutants) == 0 {
		return
	}
	g.site(e.Pos(), e.End(), mutants, func(in inner) string {
		x := "(" + in(g.offset(e.X.Pos()), g.offset(e.X.End())) + ")"
		y := "(" + in(g.offset(e.Y.Pos()), g.offset(e.Y.End())) + ")"
		var chosen, kept strings.Builder // operands that are not in chosen are not evaluated
		for i, m := range mutants {
			fmt.Fprintf(&chosen, "mutAt(%d) && %s %s %s || ", m.id, x, operators[i], y)
			fmt.Fprintf(&kept, "!mutIs(%d) && ", m.id)
		}
		return "(" + chosen.String() + kept.String() + x + " " + e.Op.String() + " " + y + ")"
	})
}

func (g *generator) arithmetic(e *ast.BinaryExpr, to token.Token) {
	t := g.typeOf(e)
	b, ok := t.Underlying().(*types.Basic)
	if !ok || b.Info()&types.IsNumeric == 0 || b.Info()&types.IsUntyped != 0 {
		return
	}
	g.either(e, t, "arithmetic", fmt.Sprintf("%s: %s → %s", g.short(e), e.Op, to), func(in inner) (string, string) {
		x := "(" + in(g.offset(e.X.Pos()), g.offset(e.X.End())) + ") "
		y := " (" + in(g.offset(e.Y.Pos()), g.offset(e.Y.End())) + ")"
		return x + to.String() + y, x + e.Op.String() + y
	})
}

// either adds a site that evaluates one of two expressions of type t.
func (g *generator) either(e ast.Expr, t types.Type, kind, text string, f func(in inner) (mutated, kept string)) {
	name, ok := g.typeName(t)
	if !ok {
		return
	}
	m := g.mutant(e, kind, text)
	g.site(e.Pos(), e.End(), []*mutant{m}, func(in inner) string {
		mutated, kept := f(in)
		return fmt.Sprintf("(func() %s { if mutAt(%d) { return %s }; return %s }())", name, m.id, mutated, kept)
	})
}

// call reverses orders, minima and maxima. An order that only tells equal from
// not equal is the same in reverse.
func (g *generator) call(n *ast.CallExpr, parent ast.Node) {
	if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "min" || id.Name == "max") && len(n.Args) >= 2 && !g.constant(n) {
		if _, ok := g.pkg.TypesInfo.Uses[id].(*types.Builtin); ok {
			other := map[string]string{"min": "max", "max": "min"}[id.Name]
			g.either(n, g.typeOf(n), "minmax", g.short(n)+" → "+other, func(in inner) (string, string) {
				args := "(" + in(g.offset(n.Lparen)+1, g.offset(n.Rparen)) + ")"
				return other + args, id.Name + args
			})
		}
		return
	}
	sel, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	switch sel.Sel.Name {
	case "Before", "After":
		if len(n.Args) == 1 && g.isBool(n) {
			g.wrap(n, "order", "!"+g.short(n), "mutNot")
		}
	case "Compare", "Cmp":
		if b, ok := parent.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
			return
		}
		if t, ok := g.typeOf(n).(*types.Basic); ok && t.Kind() == types.Int {
			g.wrap(n, "order", "-"+g.short(n), "mutNeg")
		}
	}
}

// zero puts the zero value of type want, or the opposite, in the place of e.
func (g *generator) zero(e ast.Expr, want types.Type, kind string) {
	tv, ok := g.pkg.TypesInfo.Types[e]
	if !ok || tv.IsNil() || isZero(e, tv) {
		return
	}
	if b, ok := e.(*ast.BinaryExpr); ok && (negation[b.Op] != token.ILLEGAL || b.Op == token.LAND || b.Op == token.LOR) {
		return // binary's
	}
	if b, ok := want.(*types.Basic); ok && b.Info()&types.IsBoolean != 0 {
		g.wrap(e, kind, g.short(e)+" → not", "mutNot")
		return
	}
	hook := "mutZero"
	if !types.Identical(tv.Type, want) || tv.Value != nil {
		name, ok := g.typeName(want)
		if !ok {
			return
		}
		hook += "[" + name + "]"
	}
	g.wrap(e, kind, g.short(e)+" → zero", hook)
}

// isZero reports whether e is the zero value already. The constant false does not
// count, because false has an opposite.
func isZero(e ast.Expr, tv types.TypeAndValue) bool {
	if c, ok := e.(*ast.CompositeLit); ok {
		return len(c.Elts) == 0
	}
	if tv.Value == nil {
		return false
	}
	switch tv.Value.Kind() {
	case constant.String:
		return constant.StringVal(tv.Value) == ""
	case constant.Int, constant.Float:
		return constant.Sign(tv.Value) == 0
	}
	return false
}

// integer changes a number: small ones by one, others to the double. Names of
// other types than time.Duration are words, not numbers.
func (g *generator) integer(e ast.Expr) {
	tv := g.pkg.TypesInfo.Types[e]
	if tv.Value.Kind() != constant.Int || len(g.results) == 0 {
		return
	}
	if named, ok := tv.Type.(*types.Named); ok && named.Obj().Name() != "Duration" {
		return
	}
	b, ok := tv.Type.Underlying().(*types.Basic)
	if !ok || b.Info()&types.IsInteger == 0 || b.Info()&types.IsUntyped != 0 {
		return
	}
	name, ok := g.typeName(tv.Type)
	if !ok {
		return
	}
	hook, change := "mutInc", "+1"
	if v, exact := constant.Int64Val(tv.Value); !exact || v > 9 || v < -9 {
		hook, change = "mutDouble", "×2"
	}
	g.wrap(e, "number", g.short(e)+" "+change, hook+"["+name+"]")
}
