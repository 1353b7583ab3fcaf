// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"strings"
	"unicode/utf8"
)

// MaxOutput is how many bytes of an attempt's output are kept, as in the kubelet.
const MaxOutput = 10 << 10

// LimitOutput returns at most MaxOutput bytes of s, cut between runes and with what is no UTF-8 replaced, so that it
// can be sent in an event.
func LimitOutput(s string) string {
	if len(s) > MaxOutput {
		s = s[:MaxOutput]
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(withoutPart(s), string(utf8.RuneError))
	}
	if len(s) > MaxOutput { // what was replaced needs more room
		s = withoutPart(s[:MaxOutput])
	}
	return s
}

// withoutPart removes the beginning of a rune that s ends with.
func withoutPart(s string) string {
	for back := 1; back < utf8.UTFMax && back <= len(s); back++ {
		if tail := s[len(s)-back:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				return s[:len(s)-back]
			}
			break
		}
	}
	return s
}
