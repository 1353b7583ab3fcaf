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
	require.Regexp(t, `^keelson nodeagent \S+, Kubernetes API v1\.\d+\.\d+, go\S+ \w+/\w+\n$`, string(out))
}
