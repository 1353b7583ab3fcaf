// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"go/scanner"
	"go/token"
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
	"examples/nodeagent/node/agent.go",
	"examples/nodeagent/node/check.go",
	"examples/nodeagent/node/config.go",
	"examples/nodeagent/node/housekeeping.go",
	"examples/nodeagent/node/loop.go",
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
