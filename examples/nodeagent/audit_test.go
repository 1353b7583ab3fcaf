// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
)

// audited runs the audit and returns its exit code and its output.
func audited(args ...string) (int, string) {
	var out bytes.Buffer
	code := audit(args, &out, &out)
	return code, out.String()
}

// Leftovers of a killed agent are listed beside a running agent, and removed when no agent runs.
func TestAudit(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	code, text := audited("--root-dir", root)
	require.Equal(t, 0, code, text)
	require.Contains(t, text, "Nothing is left behind.")

	half := filepath.Join(root, "process", "some-uid", ".gone-12345678")
	require.NoError(t, os.MkdirAll(filepath.Join(half, "work"), 0o700))
	volume := filepath.Join(root, "pods", "other-uid", "volumes", "kubernetes.io~empty-dir", "v")
	require.NoError(t, os.MkdirAll(volume, 0o700))
	lock, err := node.LockRoot(t.Context(), root, nil)
	require.NoError(t, err)
	for range 2 {
		code, text = audited("--root-dir", root)
		require.Equal(t, 1, code, text)
		require.Regexp(t, `(?m)^folder +`+half+` +yes +its removal was not finished$`, text)
		require.Regexp(t, `(?m)^volume folder +`+filepath.Join(root, "pods", "other-uid")+` +no +the pod is gone`, text)
		require.DirExists(t, half, "it changes nothing")
	}
	code, text = audited("--root-dir", root, "--collect")
	require.Equal(t, 2, code, "an agent runs")
	require.Contains(t, text, root)
	require.DirExists(t, half)

	lock.Unlock()
	code, text = audited("--root-dir", root, "--collect")
	require.Equal(t, 1, code, "the volume stays: %s", text)
	require.NoDirExists(t, filepath.Dir(half))
	require.DirExists(t, volume)
	require.NoError(t, os.RemoveAll(filepath.Join(root, "pods", "other-uid")))
	code, text = audited("--root-dir", root)
	require.Equal(t, 0, code, text)
}

func TestAuditSaysWhatIsWrong(t *testing.T) {
	for _, args := range [][]string{
		{"--root-dir", filepath.Join(t.TempDir(), "missing")}, {"--no-such-flag"}, {"argument"},
		{"--root-dir", t.TempDir(), "--container-runtime-endpoint", "nonsense"},
	} {
		code, text := audited(args...)
		require.Equal(t, 2, code, "%v", args)
		require.Contains(t, text, "nodeagent audit: ")
	}
	code, text := audited("--help")
	require.Equal(t, 0, code)
	require.Contains(t, text, "--collect")
}
