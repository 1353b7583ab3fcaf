// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhereTheNodesCredentialsAre(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "auth.json")
	require.NoError(t, os.WriteFile(file, []byte("{}"), 0o600))
	const containerd = "unix:///run/containerd/containerd.sock"
	for name, tc := range map[string]struct {
		endpoint, file string
		want, error    string
	}{
		"the kubelet's place": {endpoint: containerd, want: filepath.Join(root, "config.json")},
		"named":               {endpoint: containerd, file: file, want: file},
		"not there":           {endpoint: containerd, file: file + "x", error: "no such file"},
		"a folder":            {endpoint: containerd, file: dir, error: "want a file"},
		"of processes":        {endpoint: "process"},
		"named for processes": {endpoint: "process", file: file, error: "processes have no images"},
	} {
		args := []string{dir, "--root-dir", root, "--container-runtime-endpoint", tc.endpoint}
		if tc.file != "" {
			args = append(args, "--registry-auth-file", tc.file)
		}
		f, err := parseFlags(args)
		if tc.error != "" {
			require.ErrorContains(t, err, tc.error, name)
			require.ErrorContains(t, err, "--registry-auth-file", name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tc.want, f.authFile, name)
	}
}
