// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxCore is the greatest size of the core, in lines of code.
const maxCore = 1500

// core is the code that every pod passes on a node without features: the way of one pod, and the
// loop, the workers and the configuration of the assembly.
var core = []string{
	"runtime/podsync/*.go",
	"examples/nodeagent/node/admit.go",
	"examples/nodeagent/node/agent.go",
	"examples/nodeagent/node/config.go",
	"examples/nodeagent/node/housekeeping.go",
	"examples/nodeagent/node/loop.go",
	"examples/nodeagent/node/tell.go",
	"examples/nodeagent/node/workers.go",
}

// TestTheCoreIsSmall counts the lines of the core that are neither blank nor comments. The test
// prints the sizes with -v.
func TestTheCoreIsSmall(t *testing.T) {
	total := 0
	for _, pattern := range core {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := os.ReadFile(file)
			require.NoError(t, err)
			n := linesOfCode(src)
			t.Logf("%5d %s", n, file)
			total += n
		}
	}
	t.Logf("%5d lines of code", total)
	assert.LessOrEqual(t, total, maxCore, "move a rule to the part that it belongs to, or make a feature of the code")
}

// linesOfCode returns the number of lines with a token other than a comment.
func linesOfCode(src []byte) (n int) {
	file := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	for last := 0; ; {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return n
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue
		}
		first := file.Line(pos)
		end := first + strings.Count(text, "\n")
		n += end - max(first-1, last)
		last = end
	}
}

func TestLinesOfCode(t *testing.T) {
	assert.Equal(t, 5, linesOfCode([]byte("// a\npackage a\n\n/* b\n*/\nvar x = `1\n2` // c\n\nfunc f() {\n}\n")))
}

// maxFields is the greatest number of fields of node.Agent.
const maxFields = 10

// TestTheNodeHasFewFields keeps state out of the node: it belongs to a feature, or to the record of a
// pod.
func TestTheNodeHasFewFields(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "examples/nodeagent/node/agent.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	fields := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == "Agent" {
			if s, ok := spec.Type.(*ast.StructType); ok {
				fields = s.Fields.NumFields()
			}
		}
		return true
	})
	assert.Positive(t, fields)
	assert.LessOrEqual(t, fields, maxFields)
}

// mapsByUID are the places in the node that may be maps by pod UID, with the reasons. All other facts
// about pods are in the table of the node: values of feature.Slot, which end with the record, and values
// of lasting slots, which end with Drop.
var mapsByUID = map[string]string{
	"node/feature.Table.records": "the table of the node",
	"podsync.records.byUID":      "the table of podsync, which agents without the assembly use, too",
	"node/podsapi.watcher.sent":  "the state of a connection: the last event of each pod",
}

// TestFactsAboutPodsStandInOneTable finds the maps by pod UID that outlive a call: in named types and in
// variables of packages.
func TestFactsAboutPodsStandInOneTable(t *testing.T) {
	found := map[string]bool{}
	for _, root := range []string{"examples/nodeagent/node", "runtime/podsync"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			where := strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(path), "examples/nodeagent/"), "runtime/")
			lastingMapsByUID(where, file, found)
			return nil
		}))
	}
	for name := range found {
		assert.Contains(t, mapsByUID, name, "use a feature.Slot, or give the reason here")
	}
	for name := range mapsByUID {
		assert.True(t, found[name], "%s is no map by UID any more", name)
	}
	assert.LessOrEqual(t, len(mapsByUID), 3, "facts about pods belong to their records")
}

// lastingMapsByUID adds the names of the types, fields and variables of a file that hold a map by UID.
func lastingMapsByUID(where string, file *ast.File, found map[string]bool) {
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				mapsByUIDIn(where+"."+spec.Name.Name, spec.Type, found)
			case *ast.ValueSpec:
				for _, part := range append(spec.Values, spec.Type) {
					if part != nil {
						mapsByUIDIn(where+"."+spec.Names[0].Name, part, found)
					}
				}
			}
		}
	}
}

// mapsByUIDIn adds name if the type or value has a map by UID, or the names of the fields that have. Types
// of functions are no maps.
func mapsByUIDIn(name string, node ast.Node, found map[string]bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType, *ast.FuncLit:
			return false
		case *ast.StructType:
			for _, field := range n.Fields.List {
				for _, ident := range field.Names {
					mapsByUIDIn(name+"."+ident.Name, field.Type, found)
				}
			}
			return false
		case *ast.MapType:
			if key, ok := n.Key.(*ast.SelectorExpr); ok && key.Sel.Name == "UID" {
				found[name] = true
			}
		}
		return true
	})
}

func TestLastingMapsByUIDAreSeen(t *testing.T) {
	const src = `package p
var a = map[types.UID]int{}
var b map[string]map[types.UID]int
var none = func() { local := map[types.UID]int{} }
type c map[types.UID]int
type d struct {
	one   map[types.UID]int
	mu    struct { two []map[types.UID]int }
	three feature.Slot[map[types.UID]int]
	four  func(map[types.UID]int)
	five  map[string]int
}
func f() { local := map[types.UID]int{} }
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", src, parser.SkipObjectResolution)
	require.NoError(t, err)
	found := map[string]bool{}
	lastingMapsByUID("p", file, found)
	assert.Equal(t, map[string]bool{"p.a": true, "p.b": true, "p.c": true, "p.d.one": true, "p.d.mu.two": true, "p.d.three": true}, found)
}

// TestTheProgramsOfEmbeddingAreShort counts the lines of the first two programs of docs/embedding.md that
// are not blank: an agent of the parts alone, and a feature of a user's own.
func TestTheProgramsOfEmbeddingAreShort(t *testing.T) {
	text, err := os.ReadFile("docs/embedding.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "```go\n")
	agent, rest, _ := strings.Cut(rest, "```")
	_, rest, _ = strings.Cut(rest, "```golang\n")
	feature, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	require.Contains(t, agent, "podsync.New(")
	require.Contains(t, feature, "feature.Feature")
	assert.LessOrEqual(t, filledLines(agent), 60)
	assert.LessOrEqual(t, filledLines(feature), 30)
}

func filledLines(text string) (n int) {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	return n
}
