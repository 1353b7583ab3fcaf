// SPDX-License-Identifier: Apache-2.0

//go:build !nolocalapi

package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Flags of exec stand before the pod, or between the pod and "--". All that follows is the command's.
func TestFlagsOfExec(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args, root, want string
		err              string
	}{
		{args: "web -- ls -l", want: "web ls -l"},
		{args: "web ls -l", want: "web ls -l"},
		{args: "--root-dir X web -- ls --root-dir Y", root: "X", want: "web ls --root-dir Y"},
		{args: "web --root-dir X -- ls -l", root: "X", want: "web ls -l"},
		{args: "web -n b --root-dir=X -- ls -n", root: "X", want: "web ls -n"},
		{args: "web git checkout -- file", want: "web git checkout -- file"},
		{args: "web git --root-dir X -- file", want: "web git --root-dir X -- file"},
		{args: "web -- -strange", want: "web -strange"},
		{args: "web -- -- x", want: "web -- x"},
		{args: "web --root-dir X ls", err: "--root-dir: put -- between the flags and the command"},
		{args: "web --rootdir X -- ls", err: "--rootdir: put -- between the flags and the command"},
		{args: "web --", err: "want nodeagent exec"},
		{args: "--rootdir X web -- ls", err: "--rootdir"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Parallel()
			all := verbs()
			exec := all[slices.IndexFunc(all, func(v verb) bool { return v.name == "exec" })]
			c := &call{out: io.Discard}
			err := exec.parse(c, strings.Fields(tc.args))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, strings.Join(c.args, " "))
			if tc.root == "" {
				tc.root = defaultRoot()
			}
			require.Equal(t, tc.root, c.root)
		})
	}
}

// An empty name, as of an empty variable in a script, is no name.
func TestAnEmptyNameIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"describe", ""}, {"restart", ""}, {"logs", ""}, {"rm", ""}, {"exec", "", "true"}} {
		var out strings.Builder
		code, isCommand := runCommand(args, &out, &out)
		require.True(t, isCommand)
		require.Equal(t, 2, code, args)
		require.Contains(t, out.String(), "want nodeagent "+args[0])
	}
	var out strings.Builder
	require.Equal(t, 1, changeVersions("rollback", []string{"", "--root-dir", t.TempDir()}, &out, &out))
	require.Contains(t, out.String(), "want the name of a pod")
}
