// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionIsPrintedAndNothingElseDone(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "--version", "/no/such/folder")
	cmd.Env = append(os.Environ(), asAgent+"=1")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Regexp(t, `^keelson nodeagent \S+, Kubernetes v1\.\d+\.\d+\+keelson, go\S+ \w+/\w+\n$`, string(out))
}

// kubeadm runs "kubelet --version", and its preflight check fails if the whole output is not of this form.
func TestVersionOfAProgramNamedKubelet(t *testing.T) {
	require.Equal(t, "Kubernetes v1.35.0+keelson", versions("/usr/bin/kubelet", "v1.35.0+keelson"))
	_, err := parseFlags([]string{t.TempDir(), "--kubelet-version", "latest"})
	require.ErrorContains(t, err, "--kubelet-version")
}
