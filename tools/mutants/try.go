// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"golang.org/x/tools/go/packages"
)

// try judges the mutants of one package. The result is nil for a package without
// mutants.
func try(o options, box sandbox, work string, pkg *packages.Package, wanted func(*mutant) bool, accepted accepted) (*report, error) {
	start := time.Now()
	p, err := instrument(o.root, work, pkg, 1)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(p.mutants(), wanted) {
		return nil, nil
	}
	dropped, err := p.build()
	if err != nil {
		return nil, err
	}
	killers, err := newKillers(o, p, box)
	if err != nil {
		return nil, err
	}
	built := since(start)
	for _, k := range killers {
		k.learn(o.workers)
	}
	r := &report{folder: p.folder, all: p.mutants(), stale: accepted.stale(p.folder, p.mutants())}
	tests := 0
	for _, k := range killers {
		for _, t := range k.tests {
			tests++
			if t.broken {
				r.broken = append(r.broken, t.name)
			}
		}
	}
	r.sampled = sample(slices.DeleteFunc(slices.Clone(r.all), func(m *mutant) bool { return !wanted(m) }), o.n, o.seed)
	fmt.Printf("%s: %d mutants, %d sampled, seed %d; %d tests; built in %v, tests run in %v\n",
		p.folder, len(r.all), len(r.sampled), o.seed, tests, built, since(start)-built)
	if dropped > 0 {
		fmt.Printf("  %d more do not compile\n", dropped)
	}
	inParallel(o.workers, r.sampled, func(_ int, m *mutant) {
		judge(m, killers, o.patience)
		if o.verbose {
			fmt.Printf("  %-9s %s %s [%s] %s: %s\n", m.verdict, m.place(), m.function, m.kind, m.text, m.by)
		}
	})
	slices.SortFunc(r.sampled, func(a, b *mutant) int { return cmp.Compare(a.id, b.id) })
	fmt.Printf("  judged in %v\n", since(start))
	return r, nil
}

// newKillers builds the package's own tests, and the tests of further packages.
func newKillers(o options, p *instrumented, box sandbox) ([]*killer, error) {
	var killers []*killer
	if !o.alone {
		k, err := newKiller(p, box, p.folder, ".", nil)
		if err != nil {
			return nil, err
		}
		killers = append(killers, k)
	}
	further := o.tests
	if !o.alone {
		further = append(slices.Clone(companions[p.folder]), further...)
	}
	for _, folder := range further {
		k, err := newKiller(p, box, folder, o.run, o.args)
		if err != nil {
			return nil, err
		}
		killers = append(killers, k)
	}
	return killers, nil
}
