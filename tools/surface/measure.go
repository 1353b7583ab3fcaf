// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// reach is the widest use of a name.
type reach int

const (
	unused  reach = iota // by no code outside its package
	tests                // by tests only
	product              // by other code outside its package
)

// name is one exported name of the module.
type name struct {
	pkg    string // relative to the module; "." is its root
	id     string // F, T, T.M
	kit    bool   // of a package for tests
	option bool   // a field of a struct whose name ends in Options
	field  bool
	used   reach
	set    reach // of fields
}

// surface is the result of a measurement.
type surface struct {
	names []*name
}

// measurement is an unfinished surface. Objects are identified by their position,
// because a package and its test variant have different objects for a name.
type measurement struct {
	fset    *token.FileSet
	module  string
	byPlace map[string]*name
	objects map[*name]types.Object
	surface
}

// measure loads the module below root and follows all uses of its names.
func measure(root string) (*surface, error) {
	fset := token.NewFileSet()
	config := &packages.Config{Dir: root, Fset: fset, Tests: true, BuildFlags: []string{"-tags=grpcnotrace"},
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax |
			packages.NeedTypesInfo | packages.NeedModule | packages.NeedForTest}
	loaded, err := packages.Load(config, "./...")
	if err != nil {
		return nil, fmt.Errorf("surface: %w", err)
	}
	var broken []error
	for _, p := range loaded {
		for _, err := range p.Errors {
			broken = append(broken, fmt.Errorf("surface: %w", err))
		}
	}
	if err := errors.Join(broken...); err != nil {
		return nil, err
	}
	m := &measurement{fset: fset, byPlace: map[string]*name{}, objects: map[*name]types.Object{}}
	for _, p := range loaded {
		if p.Module != nil {
			m.module = p.Module.Path
		}
		if p.ForTest == "" && p.Name != "main" && !strings.HasSuffix(p.PkgPath, ".test") && !isInternal(p.PkgPath) {
			m.declare(p)
		}
	}
	for _, p := range loaded {
		m.follow(p)
	}
	documents, err := codeOfDocuments(root)
	if err != nil {
		return nil, err
	}
	m.readDocuments(documents)
	m.spread()
	return &m.surface, nil
}

func isInternal(path string) bool {
	return strings.Contains("/"+path+"/", "/internal/")
}

// declare notes the exported names of a package: names of the scope, fields of
// structs, and methods that no interface needs.
func (m *measurement) declare(p *packages.Package) {
	scope := p.Types.Scope()
	rel := strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, m.module), "/")
	add := func(obj types.Object, id string) *name {
		n := &name{pkg: rel, id: id, kit: strings.HasSuffix(rel, "test") || strings.HasSuffix(rel, "/fake")}
		m.names = append(m.names, n)
		m.byPlace[m.place(obj)] = n
		m.objects[n] = obj
		return n
	}
	for _, id := range scope.Names() {
		obj := scope.Lookup(id)
		if !obj.Exported() {
			continue
		}
		add(obj, id)
		typeName, ok := obj.(*types.TypeName)
		if !ok || typeName.IsAlias() {
			continue
		}
		if s, ok := typeName.Type().Underlying().(*types.Struct); ok {
			for f := range s.Fields() {
				if f.Exported() && !f.Embedded() {
					n := add(f, id+"."+f.Name())
					n.field, n.option = true, strings.HasSuffix(id, "Options")
				}
			}
		}
		if named, ok := typeName.Type().(*types.Named); ok {
			for method := range named.Methods() {
				if method.Exported() {
					add(method, id+"."+method.Name())
				}
			}
		}
	}
}

// place is the position of an object's declaration. Unlike the object, the position
// is the same in every variant of a package.
func (m *measurement) place(obj types.Object) string { return m.fset.Position(obj.Pos()).String() }

// follow notes the uses in all files of a package.
func (m *measurement) follow(p *packages.Package) {
	own := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(p.PkgPath, "_test"), m.module), "/")
	for _, file := range p.Syntax {
		how := product
		if base := filepath.Base(m.fset.Position(file.Pos()).Filename); strings.HasSuffix(base, "_test.go") && !strings.HasPrefix(base, "example_") {
			how = tests
		}
		use := func(n *name) reach {
			if n.kit && n.pkg != own {
				return product
			}
			return how
		}
		outside := func(obj types.Object) *name {
			if obj == nil || !obj.Pos().IsValid() {
				return nil
			}
			if f, ok := obj.(*types.Func); ok {
				obj = f.Origin()
			}
			if v, ok := obj.(*types.Var); ok {
				obj = v.Origin()
			}
			n := m.byPlace[m.place(obj)]
			if n == nil || n.pkg == own && !strings.HasSuffix(p.Name, "_test") {
				return nil
			}
			return n
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.Ident:
				if n := outside(p.TypesInfo.Uses[node]); n != nil {
					n.used = max(n.used, use(n))
				}
			case *ast.CompositeLit:
				m.literal(p, node, use, outside)
			case *ast.AssignStmt:
				for _, left := range node.Lhs {
					m.setBy(p, left, use, outside)
				}
			case *ast.UnaryExpr:
				if node.Op == token.AND {
					m.setBy(p, node.X, use, outside)
				}
			}
			return true
		})
	}
}

// literal notes the fields that a composite literal sets.
func (m *measurement) literal(p *packages.Package, lit *ast.CompositeLit, use func(*name) reach, outside func(types.Object) *name) {
	for i, element := range lit.Elts {
		var field types.Object
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				field = p.TypesInfo.Uses[key]
			}
		} else if s, ok := p.TypesInfo.TypeOf(lit).Underlying().(*types.Struct); ok {
			field = s.Field(i)
		}
		if n := outside(field); n != nil {
			n.set, n.used = max(n.set, use(n)), max(n.used, use(n))
		}
	}
}

// setBy notes the field in expr, which is assigned to or whose address is taken.
func (m *measurement) setBy(p *packages.Package, expr ast.Expr, use func(*name) reach, outside func(types.Object) *name) {
	for {
		switch e := expr.(type) {
		case *ast.SelectorExpr:
			if n := outside(p.TypesInfo.Uses[e.Sel]); n != nil {
				n.set = max(n.set, use(n))
			}
			expr = e.X // o.A.B = x sets a part of A, too
		case *ast.IndexExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		default:
			return
		}
	}
}

// spread spreads uses. Types in the signatures of used names are used. So are the
// values of used enumerations, methods that an interface may need, and fields of
// structs other than options.
func (m *measurement) spread() {
	wanted := m.interfaceMethods()
	for changed := true; changed; {
		changed = false
		raise := func(n *name, to reach) {
			if n != nil && n.used < to {
				n.used, changed = to, true
			}
		}
		for _, n := range m.names {
			obj := m.objects[n]
			if owner, member, isMember := strings.Cut(n.id, "."); isMember && (wanted[member] && !n.field) {
				for _, o := range m.names {
					if o.pkg == n.pkg && o.id == owner {
						raise(n, o.used)
					}
				}
			}
			if c, ok := obj.(*types.Const); ok {
				if named, ok := c.Type().(*types.Named); ok {
					raise(n, m.used(named.Obj()))
				}
			}
			if n.used > unused {
				mentioned(obj.Type(), func(t *types.TypeName) { raise(m.byPlace[m.place(t)], n.used) }, 0)
			}
		}
	}
}

// used returns the reach of obj. An object of another module is unused.
func (m *measurement) used(obj types.Object) reach {
	if n := m.byPlace[m.place(obj)]; n != nil {
		return n.used
	}
	return unused
}

// interfaceMethods returns the names of the methods of all interfaces of the module
// and of the standard library's common interfaces.
func (m *measurement) interfaceMethods() map[string]bool {
	out := map[string]bool{"Error": true, "String": true, "Unwrap": true, "Is": true, "As": true, "Format": true,
		"MarshalJSON": true, "UnmarshalJSON": true, "MarshalText": true, "UnmarshalText": true, "Read": true, "Write": true,
		"Close": true, "Len": true, "Less": true, "Swap": true, "ServeHTTP": true, "RoundTrip": true, "Sync": true}
	for _, obj := range m.objects {
		if t, ok := obj.(*types.TypeName); ok {
			if i, ok := t.Type().Underlying().(*types.Interface); ok {
				for method := range i.Methods() {
					out[method.Name()] = true
				}
			}
		}
	}
	return out
}

// mentioned calls visit for each named type in t.
func mentioned(t types.Type, visit func(*types.TypeName), depth int) {
	if depth > 6 {
		return
	}
	deeper := func(t types.Type) { mentioned(t, visit, depth+1) }
	switch t := t.(type) {
	case *types.Named:
		visit(t.Obj())
		for arg := range t.TypeArgs().Types() {
			deeper(arg)
		}
		if depth == 0 { // the declaration of a type that is used: what a user writes
			mentioned(t.Underlying(), visit, 1)
		}
	case *types.Alias:
		deeper(t.Rhs())
	case *types.Pointer:
		deeper(t.Elem())
	case *types.Slice:
		deeper(t.Elem())
	case *types.Array:
		deeper(t.Elem())
	case *types.Chan:
		deeper(t.Elem())
	case *types.Map:
		deeper(t.Key())
		deeper(t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				deeper(f.Type())
			}
		}
	case *types.Interface:
		for method := range t.ExplicitMethods() {
			deeper(method.Type())
		}
	case *types.Signature:
		deeper(t.Params())
		deeper(t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			deeper(v.Type())
		}
	}
}
