// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"strings"
)

// inner returns the text of the file between two offsets, with the sites in it
// rendered.
type inner func(lo, hi int) string

// site is a stretch of a file that is rendered with mutants. Sites nest: render
// asks for the text of the inner parts. A render adds no line breaks, so that line
// numbers stay right.
type site struct {
	lo, hi  int // offsets; equal for an insertion
	line    int // first line
	end     int // last line
	mutants []*mutant
	render  func(in inner) string
}

// render returns src with all sites rendered. Of sites with the same stretch
// the first is the outermost.
func render(src []byte, sites []*site) []byte {
	sites = slices.Clone(sites)
	slices.SortStableFunc(sites, func(a, b *site) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi))
	})
	var between func(first, lo, hi int) string
	between = func(first, lo, hi int) string {
		var b strings.Builder
		at := lo
		for i := first; i < len(sites) && sites[i].lo <= hi; i++ {
			s := sites[i]
			if s.lo < at || s.hi > hi {
				continue
			}
			b.Write(src[at:s.lo])
			b.WriteString(s.render(func(lo, hi int) string { return between(i+1, lo, hi) }))
			at = s.hi
		}
		b.Write(src[at:hi])
		return b.String()
	}
	return []byte(between(0, 0, len(src)))
}

// drop returns the sites that cannot be the reason for a compiler's complaint at
// line. The possible reasons are the sites that begin at the line or, without
// such sites, the sites that cover the line.
func drop(sites []*site, line int) []*site {
	begins := func(s *site) bool { return s.line == line }
	if slices.ContainsFunc(sites, begins) {
		return slices.DeleteFunc(sites, begins)
	}
	return slices.DeleteFunc(sites, func(s *site) bool { return s.line <= line && line <= s.end })
}
