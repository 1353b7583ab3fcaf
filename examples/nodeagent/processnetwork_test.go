// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPodNetworkFlag(t *testing.T) {
	parse := func(args string) (flags, error) {
		return parseFlags(append([]string{t.TempDir(), "--root-dir", t.TempDir()}, strings.Fields(args)...))
	}
	for args, want := range map[string]string{
		"--pod-network=bridge":                `--pod-network: "bridge" is neither host nor pasta`,
		"--pod-network=pasta --confine=false": "--pod-network=pasta needs --confine",
		"--pod-network=pasta --container-runtime-endpoint=unix:///run/none.sock": "--pod-network is for the process backend",
	} {
		_, err := parse(args)
		assert.ErrorContains(t, err, want)
	}
	f, err := parse("")
	require.NoError(t, err)
	assert.False(t, f.confine)
	program, err := f.network.program()
	assert.NoError(t, err)
	assert.Empty(t, program)

	f, err = parse("--pod-network=pasta")
	require.NoError(t, err)
	assert.True(t, f.confine)
	t.Setenv("PATH", t.TempDir())
	_, err = f.network.program()
	assert.ErrorContains(t, err, "--pod-network=pasta")
	assert.ErrorContains(t, err, "passt")
}
