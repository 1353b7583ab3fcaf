// SPDX-License-Identifier: Apache-2.0

package lookpath

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin/prog": 0o700, "bin/plain": 0o600, "sbin/prog": 0o700, "sbin/plain": 0o700} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, mode))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin", "folder"), 0o700))
	path := "PATH=" + filepath.Join(dir, "none") + ":" + filepath.Join(dir, "bin", "prog") + ":" + filepath.Join(dir, "bin") + ":" + filepath.Join(dir, "sbin")
	for _, tt := range []struct{ name, program, env, want, err string }{
		{"first in PATH", "prog", path, "bin/prog", ""},
		{"skips what cannot be executed", "plain", path, "sbin/plain", ""},
		{"last PATH counts", "prog", "PATH=" + filepath.Join(dir, "sbin"), "sbin/prog", ""},
		{"relative PATH", "prog", "PATH=sbin", "sbin/prog", ""},
		{"not there", "nope", path, "", `"nope": not found in PATH`},
		{"no PATH", "prog", "X=y", "", "not found in PATH"},
		{"only one that cannot be executed", "plain", "PATH=" + filepath.Join(dir, "bin"), "", "permission denied"},
		{"a folder", "folder", "PATH=" + filepath.Join(dir, "bin"), "", "is a directory"},
		{"relative path", "bin/prog", "", "bin/prog", ""},
		{"relative path with dots", "./bin/../bin/prog", "", "bin/prog", ""},
		{"absolute path", filepath.Join(dir, "bin/prog"), "", "bin/prog", ""},
		{"absolute, not there", filepath.Join(dir, "x"), path, "", "does not exist"},
		{"below a file", filepath.Join(dir, "bin/prog/x"), path, "", "does not exist"},
		{"empty", "", path, "", "empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Find(tt.program, dir, []string{"PATH=/wrong", "TOKEN=hunter2", tt.env})
			if tt.env == "X=y" || tt.env == "" {
				got, err = Find(tt.program, dir, []string{tt.env})
			}
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				assert.NotContains(t, err.Error(), "hunter2")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, filepath.Join(dir, tt.want), got)
		})
	}
}
