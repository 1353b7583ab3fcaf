// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReadmeCode builds every Go program in README.md and runs every test in
// it, as if each were a package of this module.
func TestReadmeCode(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := goBlocks(string(text))
	require.NotEmpty(t, blocks)
	root, err := os.Getwd()
	require.NoError(t, err)

	tmp := t.TempDir()
	for i, block := range blocks {
		t.Run(fmt.Sprintf("block%d", i+1), func(t *testing.T) {
			// An overlay makes the go command see a file in the module that is
			// not there.
			dir := fmt.Sprintf("readme%d", i+1)
			binary := filepath.Join(tmp, dir)
			name, args := "main.go", []string{"build", "-buildvcs=false"}
			if isTest(block) {
				name, args = "readme_test.go", []string{"test", "-c", "-vet=off"}
			}
			file := filepath.Join(tmp, dir+".go")
			require.NoError(t, os.WriteFile(file, []byte(block), 0o600))
			overlay, err := json.Marshal(map[string]map[string]string{
				"Replace": {filepath.Join(root, dir, name): file},
			})
			require.NoError(t, err)
			list := filepath.Join(tmp, dir+".json")
			require.NoError(t, os.WriteFile(list, overlay, 0o600))

			cmd := exec.CommandContext(t.Context(), "go", append(args, "-o", binary, "-overlay="+list, "./"+dir)...)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "go %s of\n%s\n%s", args[0], block, out)
			if isTest(block) {
				cmd := exec.CommandContext(t.Context(), binary)
				cmd.Dir = tmp
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "the test\n%s\n%s", block, out)
			}
		})
	}
}

var fence = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// goBlocks returns the text of each block of Go in a Markdown document.
func goBlocks(text string) []string {
	var out []string
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

func isTest(block string) bool { return strings.Contains(block, "\nfunc Test") }

func TestGoBlocks(t *testing.T) {
	const text = "a\n```go\npackage main\n\nfunc main() {}\n```\n```yaml\nb: c\n```\n\n```go\nfunc TestX() {}\n```\n"
	assert.Equal(t, []string{"package main\n\nfunc main() {}\n", "func TestX() {}\n"}, goBlocks(text))
	assert.True(t, isTest("package p\n\nfunc TestX(t *testing.T) {}\n"))
	assert.False(t, isTest("package main\n\nfunc main() {}\n"))
}
