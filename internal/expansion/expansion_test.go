// SPDX-License-Identifier: Apache-2.0

package expansion

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// expandAll expands s without a limit.
func expandAll(s string, lookup func(string) (string, bool)) string {
	out, _ := Expand(s, math.MaxInt, lookup)
	return out
}

func TestExpand(t *testing.T) {
	env := map[string]string{
		"A": "a", "B": "b", "EMPTY": "", "REF": "$(A)", "DOLLAR": "$", "OPEN": "$(", "X Y": "space", "$(A": "odd", "é": "accent",
	}
	for _, tc := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"text only", "plain (text) here", "plain (text) here"},
		{"whole", "$(A)", "a"},
		{"in the middle", "x$(A)y", "xay"},
		{"adjacent", "$(A)$(B)", "ab"},
		{"unknown stays", "$(NOPE)-$(A)", "$(NOPE)-a"},
		{"empty value", "[$(EMPTY)]", "[]"},
		{"empty name stays", "$()", "$()"},
		{"not expanded again", "$(REF)", "$(A)"},
		{"a value cannot make a reference with what follows", "$(DOLLAR)(A)$(OPEN)A)", "$(A)$(A)"},
		{"escaped", "$$(A)", "$(A)"},
		{"escaped dollar then reference", "$$$(A)", "$a"},
		{"twice escaped", "$$$$(A)", "$$(A)"},
		{"only dollars", "$$$$$", "$$$"},
		{"dollar at the end", "cost 5$", "cost 5$"},
		{"dollar before text", "$A ${A} $1", "$A ${A} $1"},
		{"dollar before a multi-byte character", "$é$(A)", "$éa"},
		{"never closed", "$(A", "$(A"},
		{"never closed, escapes still count", "$(A $$(B $$", "$(A $(B $"},
		{"closed then never closed", "$(A)$(B", "a$(B"},
		{"nested takes up to the first close", "$($(A))", "odd)"},
		{"name with a reference inside", "$($(A)", "odd"},
		{"name with a space", "$(X Y)", "space"},
		{"name in letters beyond ASCII", "$(é)", "accent"},
		{"stray close", ")$(A))", ")a)"},
		{"new line in a name", "$(A\n)", "$(A\n)"},
		{"not UTF-8", "\xff$(A)\xfe$", "\xffa\xfe$"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, expandAll(tc.in, lookupIn(env)))
		})
	}
}

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

var reference = regexp.MustCompile(`\$\$|\$\([^)]*\)`)

// expandSimply implements the same rule with a regular expression.
func expandSimply(s string, env map[string]string) string {
	return reference.ReplaceAllStringFunc(s, func(m string) string {
		if m == "$$" {
			return "$"
		}
		if v, ok := env[m[2:len(m)-1]]; ok {
			return v
		}
		return m
	})
}

// All texts of up to six significant characters.
func TestExpandAgreesWithSimpleModelExhaustively(t *testing.T) {
	env := map[string]string{"A": "$(b)", "": "none", "$": "$$", "(": ""}
	const alphabet = "$()Ab"
	words := []string{""}
	checked := 0
	for range 6 {
		var longer []string
		for _, w := range words {
			for _, c := range alphabet {
				longer = append(longer, w+string(c))
			}
		}
		words = longer
		for _, w := range words {
			if got, want := expandAll(w, lookupIn(env)), expandSimply(w, env); got != want {
				t.Fatalf("Expand(%q) = %q, want %q", w, got, want)
			}
			checked++
		}
	}
	require.Equal(t, 5*(15625-1)/4, checked)
}

func TestExpandUpToStopsAtTheLimit(t *testing.T) {
	env := map[string]string{"A": "aaaa"}
	for _, in := range []string{"", "plain", "$(A)", "x$(A)$(A)y", "$(N)$$$(A)", "$(A", "$"} {
		whole := expandAll(in, lookupIn(env))
		for limit := range len(whole) + 3 {
			got, ok := Expand(in, limit, lookupIn(env))
			assert.Equal(t, len(whole) <= limit, ok, "%q up to %d", in, limit)
			if ok {
				assert.Equal(t, whole, got)
			}
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("x$(A)$$(B)$($(A)", "A", "$(B)", "B", "")
	f.Add("$(", "", "v", "$", "$$")
	f.Fuzz(func(t *testing.T, s, name1, value1, name2, value2 string) {
		env := map[string]string{name1: value1, name2: value2}
		if got, want := expandAll(s, lookupIn(env)), expandSimply(s, env); got != want {
			t.Fatalf("Expand(%q) with %q = %q, want %q", s, env, got, want)
		}
	})
}

func BenchmarkExpand(b *testing.B) {
	lookup := lookupIn(map[string]string{"HOST": "10.0.0.1", "PORT": "8080"})
	for name, in := range map[string]string{
		"no reference":    "/usr/bin/server --listen",
		"two references":  "http://$(HOST):$(PORT)/",
		"never closed 4K": strings.Repeat("$(", 2048),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				expandAll(in, lookup)
			}
		})
	}
}
