// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// frame is what one drawing puts on a screen of that size, from the line of the
// cursor on.
type frame struct {
	width, height int
	lines         []string
}

// add puts lines at the end, none wider than the screen.
func (f *frame) add(lines ...string) {
	for _, l := range lines {
		f.lines = append(f.lines, cut(l, f.width))
	}
}

// after is what to write to a terminal for f to stand where last stood. A
// terminal whose size changes moves what it shows, each in its own way: then all
// of it is drawn anew.
func (f *frame) after(last frame) string {
	if len(f.lines) >= f.height { // what scrolled away cannot be drawn over
		f.lines = append(f.lines[:max(f.height-2, 1)], "…")
	}
	var b strings.Builder
	switch {
	case len(last.lines) == 0: // the first
	case last.width != f.width || last.height != f.height:
		b.WriteString("\x1b[H\x1b[2J")
	default:
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", len(last.lines))
	}
	b.WriteString("\x1b[?7l") // a line with wide letters is cut, and stays one
	for _, l := range f.lines {
		b.WriteString(l)
		b.WriteString("\r\n")
	}
	b.WriteString("\x1b[?7h")
	return b.String()
}

// wrap puts parts side by side, in as few lines as hold them.
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
