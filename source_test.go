// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	licenceLine = "// SPDX-License-Identifier: Apache-2.0"
	maxLines    = 500
)

// exception allows one file, or all files of a folder, what a rule forbids.
type exception struct{ file, rule, why string }

// exceptions are all there are. One that is not needed any more is a failure.
var exceptions = []exception{
	{"runtime/process/shim/main.go", "os.Exit",
		"Main is the whole main function of a process that is a container's shim"},
	{"runtime/process/shim/main.go", "init",
		"a process that is a container's shim, and no other, ends before the agent's packages are initialized: 2.9 MiB for each container"},
	{"runtime/runtimetest", "time.Sleep",
		"a test suite: fakes run it in virtual time, and real backends have no event in common to wait for"},
}

// forbidden are the names of other packages that library code does not use,
// with the reason.
var forbidden = map[string]string{
	"os.Exit":                        "the caller decides when the process ends",
	"log":                            "logs go to the zap logger the caller gave",
	"time.Sleep":                     "wait for a channel, a timer or a WaitGroup, and for ctx",
	"go.uber.org/zap.L":              "no globals: the caller gives the logger",
	"go.uber.org/zap.S":              "no globals: the caller gives the logger",
	"go.uber.org/zap.ReplaceGlobals": "no globals: the caller gives the logger",
}

// selfExplaining are methods whose name says what standard interface they are
// for, and which need no comment.
var selfExplaining = []string{
	"Error", "Unwrap", "Is", "As", "String", "GoString", "Format", "Len", "Less", "Swap", "ServeHTTP",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "Read", "Write", "Close",
}

// finding is a line that breaks a rule.
type finding struct {
	file string
	line int
	rule string // what an exception names
	text string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.file, f.line, f.rule, f.text)
}

// TestSource reads every Go file of the repository and reports what breaks the
// rules of CONTRIBUTING.md that a machine can check.
func TestSource(t *testing.T) {
	sources, inModule := readSources(t)
	require.Contains(t, sources, "doc.go", "the files must have been read")
	found := checkSources(sources, inModule)
	found, unused := without(found, exceptions)
	for _, f := range found {
		t.Error(f)
	}
	for _, e := range unused {
		t.Errorf("exception %q for %s is not needed any more", e.rule, e.file)
	}
}

// readSources returns the text of every Go file by its slash-separated path,
// and whether that path is in the main module.
func readSources(t *testing.T) (map[string][]byte, func(file string) bool) {
	t.Helper()
	sources, nested := map[string][]byte{}, []string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		switch {
		case d.IsDir() && name != "." && (base == "testdata" || base == "bin" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")):
			return fs.SkipDir
		case base == "go.mod" && name != base:
			nested = append(nested, filepath.ToSlash(filepath.Dir(name)))
		case !d.IsDir() && strings.HasSuffix(base, ".go"):
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			sources[filepath.ToSlash(name)] = text
		}
		return nil
	})
	require.NoError(t, err)
	return sources, func(file string) bool {
		return !slices.ContainsFunc(nested, func(dir string) bool { return below(file, dir) })
	}
}

// without removes what exceptions allow from found, and returns which
// exceptions allowed nothing.
func without(found []finding, exceptions []exception) (left []finding, unused []exception) {
	used := map[exception]bool{}
	left = slices.DeleteFunc(slices.Clone(found), func(f finding) bool {
		i := slices.IndexFunc(exceptions, func(e exception) bool { return below(f.file, e.file) && e.rule == f.rule })
		if i >= 0 {
			used[exceptions[i]] = true
		}
		return i >= 0
	})
	unused = slices.DeleteFunc(slices.Clone(exceptions), func(e exception) bool { return used[e] })
	return left, unused
}

// checkSources applies every rule to every file. Library code is what is in the
// module and neither a test nor a main package; the examples' is, too.
func checkSources(sources map[string][]byte, inModule func(string) bool) []finding {
	var found []finding
	comments := map[string]string{} // by folder; "" = a package without a comment yet
	fset := token.NewFileSet()
	for name, text := range sources {
		report := func(pos token.Pos, rule, format string, args ...any) {
			found = append(found, finding{name, max(1, fset.Position(pos).Line), rule, fmt.Sprintf(format, args...)})
		}
		if first, _, _ := bytes.Cut(text, []byte("\n")); string(first) != licenceLine {
			report(token.NoPos, "licence", "the first line must be %q", licenceLine)
		}
		if n := bytes.Count(text, []byte("\n")); n > maxLines {
			report(token.NoPos, "length", "%d lines; a file is one idea and has at most %d", n, maxLines)
		}
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			report(token.NoPos, "syntax", "%v", err)
			continue
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		dir := path.Dir(name)
		comments[dir] = cmp.Or(comments[dir], packageComment(file, name, report))
		if inModule(name) && file.Name.Name != "main" {
			checkNames(file, report)
			checkComments(file, report)
		}
	}
	for dir, comment := range comments {
		if comment == "" {
			found = append(found, finding{dir, 1, "comment", "the package has no comment; it belongs in doc.go"})
		}
	}
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.text, b.text))
	})
	return found
}

type reporter = func(pos token.Pos, rule, format string, args ...any)

// packageComment returns file's package comment, if it has one, and checks how
// it begins.
func packageComment(file *ast.File, name string, report reporter) string {
	text := file.Doc.Text()
	if pkg := file.Name.Name; text != "" && pkg != "main" && !strings.HasPrefix(text, "Package "+pkg+" ") {
		report(file.Package, "comment", "the package comment must begin with %q", "Package "+pkg)
	}
	return text
}

// checkNames reports what library code must not use.
func checkNames(file *ast.File, report reporter) {
	imports := map[string]string{} // import path by local name
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		if why, bad := forbidden[p]; bad {
			report(spec.Pos(), p, "%s", why)
		}
		local := path.Base(p)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imports[local] = p
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			report(f.Pos(), "init", "nothing happens on import")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Obj == nil {
				name := imports[x.Name] + "." + n.Sel.Name
				if why, bad := forbidden[name]; bad {
					report(n.Pos(), name, "%s", why)
				}
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Obj == nil && (f.Name == "panic" || f.Name == "recover") {
				report(n.Pos(), f.Name, "return an error; nothing panics and nothing hides a panic")
			}
		}
		return true
	})
}

// checkComments reports exported names without a comment.
func checkComments(file *ast.File, report reporter) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && !isSilentMethod(d) {
				report(d.Pos(), "comment", "exported %s has no comment", d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				checkSpec(d, spec, report)
			}
		}
	}
}

// checkSpec reports exported names of one declaration without a comment. The
// comment of a group of constants or variables counts for all of them.
func checkSpec(d *ast.GenDecl, spec ast.Spec, report reporter) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && spec.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			report(spec.Pos(), "comment", "exported %s has no comment", spec.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() && spec.Doc == nil && spec.Comment == nil && d.Doc == nil {
				report(name.Pos(), "comment", "exported %s has no comment", name.Name)
			}
		}
	}
}

// isSilentMethod reports whether f is a method that needs no comment: of a type
// that nobody outside sees, or one of selfExplaining.
func isSilentMethod(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return false
	}
	recv := f.Recv.List[0].Type
	for {
		switch t := recv.(type) {
		case *ast.StarExpr:
			recv = t.X
		case *ast.IndexExpr:
			recv = t.X
		case *ast.IndexListExpr:
			recv = t.X
		case *ast.Ident:
			return !t.IsExported() || slices.Contains(selfExplaining, f.Name.Name)
		default:
			return false
		}
	}
}

// TestSourceFaultsAreSeen shows the check small files with one fault each.
func TestSourceFaultsAreSeen(t *testing.T) {
	const head = licenceLine + "\n\n// Package p is a part.\npackage p\n\n"
	tests := []struct{ name, file, text, want string }{
		{"clean", "p/p.go", head + "import \"os\"\n\n// F is.\nfunc F() { os.Getpid() }\n", ""},
		{"licence", "p/p.go", "\n" + head, "p/p.go:1: licence"},
		{"too long", "p/p_test.go", head + strings.Repeat("\n", maxLines), "length: 505 lines"},
		{"syntax", "p/p.go", head + "func {", "syntax"},
		{"no package comment", "p/p.go", licenceLine + "\n\npackage p\n", "p:1: comment: the package has no comment"},
		{"wrong package comment", "p/p.go", licenceLine + "\n\n// This is p.\npackage p\n", `must begin with "Package p"`},
		{"exit", "p/p.go", head + "import \"os\"\n\nfunc f() { os.Exit(1) }\n", "p/p.go:8: os.Exit"},
		{"exit renamed", "p/p.go", head + "import sys \"os\"\n\nvar die = sys.Exit\n", "p/p.go:8: os.Exit"},
		{"exit of a local", "p/p.go", head + "func f(os interface{ Exit(int) }) { os.Exit(1) }\n", ""},
		{"exit in another module", "tools/p/p.go", head + "import \"os\"\n\nfunc f() { os.Exit(1) }\n", ""},
		{"exit in a main package", "p/main.go", licenceLine + "\n\n// P does.\npackage main\n\nimport \"os\"\n\nfunc main() { os.Exit(1) }\n", ""},
		{"exit in a test", "p/p_test.go", head + "import \"os\"\n\nfunc f() { os.Exit(1) }\n", ""},
		{"panic", "p/p.go", head + "func f() { panic(1) }\n", "p/p.go:6: panic"},
		{"recover", "p/p.go", head + "func f() { defer func() { recover() }() }\n", "p/p.go:6: recover"},
		{"log", "p/p.go", head + "import \"log\"\n\nvar _ = log.Default\n", "p/p.go:6: log:"},
		{"global logger", "p/p.go", head + "import \"go.uber.org/zap\"\n\nvar _ = zap.L()\n", "go.uber.org/zap.L:"},
		{"sleep", "p/p.go", head + "import \"time\"\n\nfunc f() { time.Sleep(1) }\n", "time.Sleep"},
		{"init", "p/p.go", head + "func init() {}\n", "p/p.go:6: init"},
		{"method init", "p/p.go", head + "type t int\n\nfunc (t) init() {}\n", ""},
		{"function", "p/p.go", head + "func F() {}\n", "exported F has no comment"},
		{"method", "p/p.go", head + "// T is.\ntype T int\n\nfunc (*T) M() {}\n", "exported M has no comment"},
		{"silent methods", "p/p.go", head + "// T is.\ntype T[K any] int\n\nfunc (T[K]) String() string { return \"\" }\n\ntype u int\n\nfunc (u) M() {}\n", ""},
		{"type", "p/p.go", head + "type T int\n", "exported T has no comment"},
		{"type in a group", "p/p.go", head + "// Ts.\ntype (\n\tT int\n)\n", "exported T has no comment"},
		{"value", "p/p.go", head + "var A, b = 1, 2\n", "exported A has no comment"},
		{"values of a group", "p/p.go", head + "// These.\nconst (\n\tA = 1\n\tB = 2 // second\n)\n", ""},
	}
	inModule := func(file string) bool { return !below(file, "tools") }
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := checkSources(map[string][]byte{tc.file: []byte(tc.text)}, inModule)
			if tc.want == "" {
				assert.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			assert.Contains(t, got[0].String(), tc.want)
		})
	}
}

// TestExceptions checks that an exception allows one rule in one file, and that
// a useless one is told.
func TestExceptions(t *testing.T) {
	found := []finding{{"a.go", 1, "panic", ""}, {"d/a.go", 2, "panic", ""}, {"b.go", 1, "panic", ""}, {"a.go", 3, "init", ""}}
	needed, folder, useless := exception{"a.go", "panic", "why"}, exception{"d", "panic", "why"}, exception{"c.go", "panic", "why"}
	left, unused := without(found, []exception{needed, folder, useless})
	assert.Equal(t, found[2:], left)
	assert.Equal(t, []exception{useless}, unused)
}
