// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"math"
	"strings"
)

// Expand replaces the variable references of s, with the kubelet's syntax for
// environment values, command, args and subPathExpr:
//
//   - $(NAME) becomes what lookup says; if it says false, the reference stays
//     as written. NAME is everything up to the next ")", whatever it is.
//   - $$ becomes $, so $$(NAME) becomes the text $(NAME).
//   - $ before anything else, at the end, or in a $( that is never closed is
//     kept.
//
// It is one pass from left to right: what lookup returns is not looked at
// again. The time is linear in the input and the output.
func Expand(s string, lookup func(name string) (string, bool)) string {
	out, _ := expandUpTo(s, math.MaxInt, lookup)
	return out
}

// expandUpTo is Expand that gives up, with false, before its result is longer
// than limit bytes. References double what they refer to, so a short list of
// variables can ask for more memory than there is.
func expandUpTo(s string, limit int, lookup func(name string) (string, bool)) (string, bool) {
	if strings.IndexByte(s, '$') < 0 {
		return s, len(s) <= limit
	}
	var b strings.Builder
	for closed := true; ; {
		text, piece, rest := s, "", ""
		if i := strings.IndexByte(s, '$'); i >= 0 {
			text = s[:i]
			piece, rest, closed = nextPiece(s[i:], closed, lookup)
		}
		if len(text)+len(piece) > limit-b.Len() {
			return "", false
		}
		b.WriteString(text)
		b.WriteString(piece)
		if len(text) == len(s) {
			return b.String(), true
		}
		s = rest
	}
}

// nextPiece takes what the "$" at the start of s begins and returns its
// replacement and what follows it. closed says that s may still have a ")";
// once it is known to have none, nobody searches again.
func nextPiece(s string, closed bool, lookup func(string) (string, bool)) (piece, rest string, stillClosed bool) {
	if strings.HasPrefix(s, "$$") {
		return "$", s[2:], closed
	}
	if closed && strings.HasPrefix(s, "$(") {
		end := strings.IndexByte(s, ')')
		if end < 0 {
			return "$", s[1:], false
		}
		if value, ok := lookup(s[2:end]); ok {
			return value, s[end+1:], true
		}
		return s[:end+1], s[end+1:], true
	}
	return "$", s[1:], closed
}
