// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// mutant is one small fault, compiled into the package. The fault is active if the
// environment names its id.
type mutant struct {
	id       int    // 1, 2, … within the packages that are instrumented together
	pkg      string // folder of the package below the repository's root, with slashes
	file     string // base name
	line     int
	end      int    // last line that the fault changes
	function string // "Manager.Run", "merge"
	kind     string // "if-never"
	text     string // "a == b → false"
	nth      int    // 1, 2, … among the mutants of the function with this kind and text
	decider  bool   // the file holds pure decisions
	verdict  verdict
	by       string // test that killed it
}

// verdict is the outcome of a mutant.
type verdict string

const (
	notRun    verdict = ""
	killed    verdict = "killed"
	timedOut  verdict = "timeout" // counts as killed
	lived     verdict = "LIVED"
	uncovered verdict = "UNCOVERED" // no test reaches the code
)

// place is the folder, file and line, as -files matches them.
func (m *mutant) place() string { return fmt.Sprintf("%s/%s:%d", m.pkg, m.file, m.line) }

// key identifies the mutant in accepted.txt. It has no line number, so it
// survives edits elsewhere in the file.
func (m *mutant) key() string {
	key := strings.Join([]string{m.pkg, m.function, m.kind, m.text}, " | ")
	if m.nth > 1 {
		key += " | " + strconv.Itoa(m.nth)
	}
	return key
}

// number sets nth of all mutants of a package.
func number(all []*mutant) {
	seen := map[string]int{}
	for _, m := range all {
		key := strings.Join([]string{m.function, m.kind, m.text}, " | ")
		seen[key]++
		m.nth = seen[key]
	}
}

// shellImports are the packages that a file of pure decisions does not import.
var shellImports = []string{"sync", "sync/atomic", "context", "os", "net", "net/http", "go.uber.org/zap"}

// clockNames are the names of package time that read or wait for the clock.
var clockNames = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}

// isDecider reports whether f holds pure decisions: the file takes no locks,
// logs nothing, reads neither clock nor files, and starts no goroutine.
func isDecider(f *ast.File) bool {
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil || slices.Contains(shellImports, path) {
			return false
		}
	}
	pure := true
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
			pure = false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockNames, n.Sel.Name) {
				pure = false
			}
		}
		return pure
	})
	return pure
}
