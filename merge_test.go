// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"bytes"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSourceHasNoMergeMarks fails on the lines that git writes around an unsettled conflict. Only Go
// files fail to compile with them.
func TestSourceHasNoMergeMarks(t *testing.T) {
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, path):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range bytes.Split(content, []byte("\n")) {
			if bytes.HasPrefix(line, []byte("<<<<<<< ")) || bytes.HasPrefix(line, []byte(">>>>>>> ")) {
				assert.Fail(t, "mark of a merge conflict", "%s:%d: %s", path, i+1, line)
			}
		}
		return nil
	}))
}
