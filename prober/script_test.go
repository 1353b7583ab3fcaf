// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output in testdata")

// TestScripts plays every script in testdata in virtual time: prose in lines that begin with #, then blocks of
// commands, a line of four dashes, and the expected events. The commands are the methods of stage.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var played string
			synctest.Test(t, func(t *testing.T) { played = playScript(t, string(text)) })
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(played), 0o644))
				return
			}
			require.Equal(t, string(text), played, "if this is right, run the test with -rewrite")
		})
	}
}

// playScript returns the script with the actual output in place of the expected output.
func playScript(t *testing.T, script string) string {
	s := newStage(t)
	defer func() { s.stop() }()
	var out strings.Builder
	skipping := false
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case skipping && line != "":
		case skipping:
			skipping = false
			out.WriteString("\n")
		case line == "----":
			skipping = true
			out.WriteString(line + "\n")
			for _, happened := range s.flush() {
				out.WriteString(happened + "\n")
			}
		default:
			out.WriteString(line + "\n")
			if line != "" && !strings.HasPrefix(line, "#") {
				s.do(line)
			}
		}
	}
	return out.String()
}
