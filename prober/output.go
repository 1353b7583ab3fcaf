// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"strings"
	"unicode/utf8"
)

// MaxOutput is how many bytes of an attempt's output are kept, as in the kubelet.
const MaxOutput = 10 << 10

// LimitOutput returns at most MaxOutput bytes of s for an event. It cuts between runes and replaces
// invalid UTF-8.
func LimitOutput(s string) string {
	s = strings.ToValidUTF8(withoutPart(s), string(utf8.RuneError))
	return withoutPart(s[:min(len(s), MaxOutput)])
}

// withoutPart removes an incomplete rune from the end of s.
func withoutPart(s string) string {
	for i := len(s) - 1; i >= 0; i-- {
		if !utf8.RuneStart(s[i]) {
			continue
		}
		if utf8.FullRuneInString(s[i:]) {
			return s
		}
		return s[:i]
	}
	return s
}
