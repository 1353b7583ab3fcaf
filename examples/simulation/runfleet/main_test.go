// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	for args, want := range map[string]string{
		"":                                     "want -kubeconfig FILE",
		"-kubeconfig x y":                      "no arguments",
		"-kubeconfig " + file:                  "-kubeconfig: ",
		"-kubeconfig /missing":                 "-kubeconfig: stat /missing",
		"-shard 2/2 -kubeconfig /missing":      `invalid value "2/2" for flag -shard: "2/2": want a number, a slash and a larger number`,
		"-shard 1 -kubeconfig /missing":        `"1": want a number`,
		"-nodes many -kubeconfig /missing":     `invalid value "many"`,
		"-shard 1/2 -nodes 5 -kubeconfig nope": "-kubeconfig: stat nope",
	} {
		var told strings.Builder
		err := run(t.Context(), strings.Fields(args), &told, &told)
		require.Error(t, err, args)
		require.Contains(t, told.String()+err.Error(), want)
	}
}
