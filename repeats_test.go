// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxRepeat is the longest run of lines that may stand twice outside tests.
const maxRepeat = 5

// codeLine is a line that says something: no comment, no import, not only
// punctuation.
type codeLine struct {
	text string
	at   int
}

// allowedRepeats are the runs that stand in two files, with the reason.
var allowedRepeats = map[[2]string]string{
	{"runtime/fake/fault.go", "statusmanager/statustest/fault.go"}: "exported fields, which literals of both types set",
}

// TestNoRunOfLinesStandsTwice looks for copied code. If a rule stands twice, a change may miss one of
// both places. Test files may repeat. Tools, examples and packages for tests may not.
func TestNoRunOfLinesStandsTwice(t *testing.T) {
	sources := map[string][]codeLine{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if slices.Contains([]string{"testdata", "bin", "dist", ".git"}, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sources[path] = codeLines(t, src)
		}
		return nil
	}))
	for _, read := range []string{"runtime/sync.go", "tools/surface/main.go", "runtime/runtimetest/remove.go"} {
		require.NotEmpty(t, sources[read], "the sources must have been read")
	}
	for _, repeat := range repeats(sources) {
		if allowedRepeats[repeat.files()] == "" {
			t.Errorf("%s: move the common lines to a function, in internal if several packages need it", repeat)
		}
	}
}

// codeLines returns the lines of src below its imports that say something.
func codeLines(t *testing.T, src []byte) []codeLine {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	require.NoError(t, err)
	begin := fset.Position(file.Name.End()).Line
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			begin = fset.Position(g.End()).Line
		}
	}
	var out []codeLine
	for i, line := range strings.Split(string(src), "\n") {
		text := strings.Join(strings.Fields(line), " ")
		if i+1 > begin && !strings.HasPrefix(text, "//") && strings.ContainsFunc(text, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }) {
			out = append(out, codeLine{text, i + 1})
		}
	}
	return out
}

// repeat is a run of lines in two places.
type repeat [2]token.Position

func (r repeat) files() [2]string { return [2]string{r[0].Filename, r[1].Filename} }

func (r repeat) String() string { return r[0].String() + " and " + r[1].String() }

// repeats returns the runs of more than maxRepeat lines that stand in two places.
func repeats(sources map[string][]codeLine) []repeat {
	type place struct {
		file  string
		index int
	}
	seen := map[string]place{}
	var out []repeat
	reported := map[string]place{}
	files := make([]string, 0, len(sources))
	for file := range sources {
		files = append(files, file)
	}
	slices.Sort(files)
	for _, file := range files {
		lines := sources[file]
		for i := 0; i+maxRepeat < len(lines); i++ {
			var run strings.Builder
			for _, l := range lines[i : i+maxRepeat+1] {
				run.WriteString(l.text + "\n")
			}
			first, again := seen[run.String()]
			if !again {
				seen[run.String()] = place{file, i}
				continue
			}
			// The run goes on from the one reported before: not a second one.
			key := file + " " + first.file
			before, went := reported[key]
			reported[key] = place{file, i}
			if went && before.index == i-1 {
				continue
			}
			out = append(out, repeat{position(first.file, sources[first.file][first.index]), position(file, lines[i])})
		}
	}
	return out
}

func position(file string, l codeLine) token.Position {
	return token.Position{Filename: file, Line: l.at}
}

// TestRepeatsAreSeen shows the check small files.
func TestRepeatsAreSeen(t *testing.T) {
	const head = "package p\n\nimport \"os\"\n\n"
	run := "func f() {\n\ta()\n\tb()\n\tc()\n\td()\n\te()\n}\n"
	for _, tc := range []struct{ name, a, b, want string }{
		{"six lines", head + run, head + "\n// A comment.\n" + run, "a.go:5 and b.go:7"},
		{"five lines", head + strings.Replace(run, "\te()\n", "", 1), head + strings.Replace(run, "\te()\n", "", 1), ""},
		{"another name", head + run, head + strings.Replace(run, "c()", "g()", 1), ""},
		{"imports", "package p\n\nimport (\n\t\"a\"\n\t\"b\"\n\t\"c\"\n\t\"d\"\n\t\"e\"\n\t\"f\"\n)\n", "package p\n\nimport (\n\t\"a\"\n\t\"b\"\n\t\"c\"\n\t\"d\"\n\t\"e\"\n\t\"f\"\n)\n", ""},
		{"one that goes on", head + run + "var x = 1\n", head + run + "var x = 1\n", "a.go:5 and b.go:5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := repeats(map[string][]codeLine{"a.go": codeLines(t, []byte(tc.a)), "b.go": codeLines(t, []byte(tc.b))})
			var texts []string
			for _, r := range got {
				texts = append(texts, r.String())
			}
			assert.Equal(t, tc.want, strings.Join(texts, "; "))
		})
	}
}
