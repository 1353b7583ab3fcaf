// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// FuzzExpand compares expand with a regular expression.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"$(A)", "$$(A)", "$($(A))", "$(", "$$$", "$()", "a$(B", "$(A)$(C)$"} {
		f.Add(s)
	}
	known := map[string]string{"A": "$(C)", "B": "b", "C": "$$", "": "nothing"}
	env := []v1.EnvVar{{Name: "A", Value: known["A"]}, {Name: "B", Value: known["B"]}, {Name: "C", Value: known["C"]}, {Value: known[""]}}
	references := regexp.MustCompile(`(?s)\$\$|\$\(([^)]*)\)`)
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1000 {
			t.Skip("long enough")
		}
		want := references.ReplaceAllStringFunc(s, func(found string) string {
			if found == "$$" {
				return "$"
			}
			if value, ok := known[found[2:len(found)-1]]; ok {
				return value
			}
			return found
		})
		got, err := expandCommand([]string{s}, env)
		require.NoError(t, err)
		require.Equal(t, []string{want}, got, "%q", s)
	})
}
