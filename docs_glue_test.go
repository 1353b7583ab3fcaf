// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGlueOfImageGC runs the glue between imagegc and runtime that the documentation of
// imagegc shows. testdata/glue_imagegc.txt is the rest of the program. Its backend leaves
// images out of List, as Runtime.List allows.
func TestGlueOfImageGC(t *testing.T) {
	sources, _ := readSources(t)
	_, text, ok := strings.Cut(string(sources["imagegc/doc.go"]), "\n// Package imagegc ")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "\npackage imagegc")
	rest, err := os.ReadFile(filepath.Join("testdata", "glue_imagegc.txt"))
	require.NoError(t, err)
	program := string(rest)
	for _, block := range codeOf(strings.ReplaceAll(strings.ReplaceAll(text, "\n// ", "\n"), "\n//", "\n")) {
		if strings.Contains(block, "\nfunc ") || strings.HasPrefix(block, "func ") {
			program += "\n" + block
		}
	}

	root, err := os.Getwd()
	require.NoError(t, err)
	tmp := t.TempDir()
	file, list := filepath.Join(tmp, "main.go"), filepath.Join(tmp, "overlay.json")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "zz_glue", "main.go"): file}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "run", "-buildvcs=false", "-tags=grpcnotrace", "-overlay="+list, "./zz_glue")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "removed registry.example/unused:1 (10.0 GiB, unused)\nkept registry.example/used:1: in use\n", string(out))
}
