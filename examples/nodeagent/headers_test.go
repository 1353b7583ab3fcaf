// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The flag has the kubelet's form, and errors contain no secret.
func TestManifestURLHeadersAreTheKubelets(t *testing.T) {
	parse := func(args ...string) (http.Header, error) {
		f, err := parseFlags(append([]string{"--manifest-url", "http://127.0.0.1:1", "--hostname-override", "n", "--root-dir", t.TempDir()}, args...))
		if err != nil {
			return nil, err
		}
		return f.urlHeaders.header()
	}
	got, err := parse("--manifest-url-header", "a:hello,b:again,c:world", "--manifest-url-header", "b:beautiful")
	require.NoError(t, err)
	require.Equal(t, http.Header{"A": {"hello"}, "B": {"again", "beautiful"}, "C": {"world"}}, got)
	got, err = parse("--manifest-url-header", "Authorization=Basic dTpw=")
	require.NoError(t, err)
	require.Equal(t, http.Header{"Authorization": {"Basic dTpw="}}, got)
	for _, bad := range []string{"tell-nobody", ":tell-nobody", "a b:tell-nobody", "a:tell\nnobody", "a:b,tell-nobody"} {
		_, err := parse("--manifest-url-header", bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "nobody")
	}
}

// Requested help goes to standard output, so that it can be piped into a pager.
func TestHelpIsOnStandardOutput(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "--help")
	cmd.Env = append(os.Environ(), asAgent+"=1")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "--pod-manifest-path")
	require.Contains(t, string(out), "--manifest-url-header name:value,...")
}
