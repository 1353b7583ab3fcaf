// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// report is the outcome of the mutants of one package.
type report struct {
	folder  string
	all     []*mutant // sampled or not
	sampled []*mutant
	stale   []string // keys of accepted mutants that do not exist any more
	broken  []string // tests that fail without a mutant
}

// tally counts the mutants of a kind of file. Accepted survivors do not count as
// sampled.
type tally struct{ killed, sampled, accepted int }

func (t tally) String() string {
	if t.sampled == 0 {
		return "–"
	}
	return fmt.Sprintf("%d/%d (%.0f %%)", t.killed, t.sampled, 100*float64(t.killed)/float64(t.sampled))
}

func (m *mutant) dead() bool { return m.verdict == killed || m.verdict == timedOut }

// count returns the tally of the deciders or of the shells.
func (r *report) count(accepted accepted, decider bool) (t tally) {
	for _, m := range r.sampled {
		switch {
		case m.decider != decider:
		case m.dead():
			t.killed++
			t.sampled++
		case accepted[m.key()] != "":
			t.accepted++
		default:
			t.sampled++
		}
	}
	return t
}

// survivors returns the surviving mutants that are not accepted.
func (r *report) survivors(accepted accepted) []*mutant {
	return slices.DeleteFunc(slices.Clone(r.sampled), func(m *mutant) bool {
		return m.dead() || accepted[m.key()] != ""
	})
}

// print writes the survivors and the faults of the list of accepted mutants.
// print reports whether there is anything to do.
func (r *report) print(w io.Writer, accepted accepted) bool {
	for _, name := range r.broken {
		fmt.Fprintf(w, "  fails without a mutant, so it was not asked: %s\n", name)
	}
	survivors := r.survivors(accepted)
	for _, m := range survivors {
		fmt.Fprintf(w, "  %-9s %s %s [%s] %s\n", m.verdict, m.place(), m.function, m.kind, m.text)
		fmt.Fprintf(w, "            %s\n", m.key())
	}
	wrong := len(r.stale) + len(r.broken)
	for _, m := range r.sampled {
		if m.dead() && accepted[m.key()] != "" {
			wrong++
			fmt.Fprintf(w, "  accepted as %q, but %s kills it: take it out of tools/mutants/accepted\n            %s\n",
				accepted[m.key()], or(m.by, "a timeout"), m.key())
		}
	}
	for _, line := range r.stale {
		fmt.Fprintf(w, "  accepted, but there is no such mutant any more: take it out of tools/mutants/accepted\n            %s\n", line)
	}
	return wrong+len(survivors) > 0
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// summary writes one line for each package.
func summary(w io.Writer, reports []*report, accepted accepted) {
	fmt.Fprintf(w, "\n%-40s %-20s %-20s %s\n", "killed/sampled", "deciders", "shells", "accepted")
	var sum [2]tally
	for _, r := range reports {
		d, s := r.count(accepted, true), r.count(accepted, false)
		fmt.Fprintf(w, "%-40s %-20s %-20s %d\n", r.folder, d, s, d.accepted+s.accepted)
		for i, t := range []tally{d, s} {
			sum[i].killed, sum[i].sampled, sum[i].accepted = sum[i].killed+t.killed, sum[i].sampled+t.sampled, sum[i].accepted+t.accepted
		}
	}
	if len(reports) > 1 {
		fmt.Fprintf(w, "%-40s %-20s %-20s %d\n", strings.Repeat("=", 8), sum[0], sum[1], sum[0].accepted+sum[1].accepted)
	}
}
