// SPDX-License-Identifier: Apache-2.0

// Package expansion replaces references to variables in texts of pods.
package expansion

import "strings"

// Expand replaces the variable references of s, with the kubelet's syntax for environment values,
// command, args, exec probes and subPathExpr:
//
//   - $(NAME) becomes the value that lookup returns. If lookup returns false, the reference stays
//     as written. NAME is everything up to the next ")".
//   - $$ becomes $, so $$(NAME) becomes the text $(NAME).
//   - $ before anything else, at the end, or in a $( that is never closed is kept.
//
// The values of lookup are not expanded again. The time is linear in the input and the output.
//
// Expand returns false before its result is longer than limit bytes: references double the values
// that they refer to, so a short list of variables can ask for more memory than there is.
func Expand(s string, limit int, lookup func(name string) (string, bool)) (string, bool) {
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

// nextPiece reads the reference or text that the "$" at the start of s begins, and returns its
// replacement and the rest of s. closed is false if s is known to have no ")", so that nextPiece
// does not search for one again.
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
