// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// count has the counts of one package, or of all packages.
type count struct {
	names, unused, onlyTests      int // of the package's scope and its methods
	options, unset, unsetButTests int
}

func (c *count) add(n *name) {
	switch {
	case n.option:
		c.options++
		switch n.set {
		case unused:
			c.unset++
		case tests:
			c.unsetButTests++
		}
	case !n.field:
		c.names++
		switch n.used {
		case unused:
			c.unused++
		case tests:
			c.onlyTests++
		}
	}
}

// unsetShare returns the percentage of the option fields that only tests or no code set.
func (s *surface) unsetShare() float64 {
	var c count
	for _, n := range s.names {
		c.add(n)
	}
	return percent(c.unset+c.unsetButTests, c.options)
}

func percent(part, whole int) float64 { return 100 * float64(part) / max(1, float64(whole)) }

// print writes the shares of each package, or of pkg alone, with the names if
// all is asked for.
func (s *surface) print(w io.Writer, pkg string, all bool) error {
	packages, total := map[string]*count{}, &count{}
	for _, n := range s.names {
		if pkg != "" && n.pkg != pkg {
			continue
		}
		c := packages[n.pkg]
		if c == nil {
			c = &count{}
			packages[n.pkg] = c
		}
		c.add(n)
		total.add(n)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "names\tused by none\tby tests only\toption fields\tset by none\tby tests only\t package")
	for _, p := range slices.Sorted(maps.Keys(packages)) {
		c := packages[p]
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t %s\n", c.names, c.unused, c.onlyTests, c.options, c.unset, c.unsetButTests, p)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if all {
		s.list(w, pkg, "option fields that no code outside the package sets", func(n *name) (bool, reach) { return n.option, n.set })
		s.list(w, pkg, "names that no code outside the package uses", func(n *name) (bool, reach) { return !n.option && !n.field, n.used })
	}
	_, err := fmt.Fprintf(w, "\noption fields set by no code but tests: %d of %d, %.1f %%\nnames used by no code outside their package but tests: %d of %d, %.1f %%\n",
		total.unset+total.unsetButTests, total.options, percent(total.unset+total.unsetButTests, total.options),
		total.unused+total.onlyTests, total.names, percent(total.unused+total.onlyTests, total.names))
	return err
}

// list writes the names chosen by which that have no use in product code, by
// package.
func (s *surface) list(w io.Writer, pkg, title string, which func(*name) (bool, reach)) {
	fmt.Fprintf(w, "\n%s (* = tests do):\n", title)
	lines := map[string][]string{}
	for _, n := range s.names {
		counts, how := which(n)
		if !counts || how == product || pkg != "" && n.pkg != pkg {
			continue
		}
		id := n.id
		if how == tests {
			id += "*"
		}
		lines[n.pkg] = append(lines[n.pkg], id)
	}
	for _, p := range slices.Sorted(maps.Keys(lines)) {
		slices.Sort(lines[p])
		fmt.Fprintf(w, "  %s: %s\n", p, strings.Join(lines[p], " "))
	}
}
