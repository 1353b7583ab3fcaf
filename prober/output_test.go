// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUpstreamMessagesAreCutBetweenRunes: the API server changes a message that ends within a rune, so the stored
// message never equals the sent message (contract §4.4).
func TestUpstreamMessagesAreCutBetweenRunes(t *testing.T) {
	for width, r := range map[int]string{1: "a", 2: "é", 3: "€", 4: "😀"} {
		for shift := range 4 {
			in := strings.Repeat("x", shift) + strings.Repeat(r, MaxOutput)
			got := LimitOutput(in)
			assert.True(t, utf8.ValidString(got))
			assert.True(t, strings.HasPrefix(in, got), "nothing is replaced that was good")
			assert.Greater(t, len(got), MaxOutput-width)
			assert.LessOrEqual(t, len(got), MaxOutput)
		}
	}
}

func TestLimitOutput(t *testing.T) {
	for in, want := range map[string]string{
		"":               "",
		"fine":           "fine",
		"caf\xe9!":       "caf\uFFFD!",
		"part \xe2\x82":  "part ",
		"\xff":           "\uFFFD",
		"a\xf0\x9f\x98":  "a",
		"\xed\xa0\x80 x": "\uFFFD x",
		"\xe2\x82":       "",
		"b\xe2":          "b",
		"\x82":           "\uFFFD",
	} {
		assert.Equal(t, want, LimitOutput(in), "%q", in)
	}
	assert.LessOrEqual(t, len(LimitOutput(strings.Repeat("\xff.", MaxOutput))), MaxOutput)
}

func FuzzLimitOutput(f *testing.F) {
	f.Add("é", 5000)
	f.Add("\xf0\x9f", 9000)
	f.Fuzz(func(t *testing.T, s string, n int) {
		in := strings.Repeat(s, min(max(n, 1), 20_000)/max(len(s), 1)+1)
		got := LimitOutput(in)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), MaxOutput)
		if utf8.ValidString(in) {
			require.True(t, strings.HasPrefix(in, got))
			require.True(t, len(got) == len(in) || len(got) > MaxOutput-utf8.UTFMax)
		}
	})
}
