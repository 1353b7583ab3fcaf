// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// frame is the text of one drawing, from the line of the cursor on, for a screen of this size. It
// has fewer lines than the screen, because lines that have scrolled away cannot be redrawn.
type frame struct {
	width, height int
	lines         []string
}

// after returns the bytes that replace last by f on the terminal. After a change of the terminal's
// size the whole screen is cleared, because terminals rearrange their lines differently.
func (f *frame) after(last frame) string {
	var b strings.Builder
	switch {
	case len(last.lines) == 0: // first drawing
	case last.width != f.width || last.height != f.height:
		b.WriteString("\x1b[H\x1b[2J")
	default:
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", len(last.lines))
	}
	b.WriteString("\x1b[?7l") // no line wrap, so that a line with wide characters stays a single line
	for _, l := range f.lines {
		b.WriteString(l)
		b.WriteString("\r\n")
	}
	b.WriteString("\x1b[?7h")
	return b.String()
}

// wrap joins parts into as few lines as possible.
func wrap(parts []string, width int) (lines []string) {
	for _, part := range parts {
		if last := len(lines) - 1; last >= 0 {
			joined := lines[last] + " · " + part
			if width <= 0 || utf8.RuneCountInString(joined) <= width {
				lines[last] = joined
				continue
			}
		}
		lines = append(lines, part)
	}
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return lines
}
