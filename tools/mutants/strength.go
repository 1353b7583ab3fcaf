// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// deciders are the packages whose pure decisions make up a pod's fate on a node.
var deciders = []string{
	"runtime", "runtime/podsync", "runtime/podstatus", "podworkers", "prober", "podconfig", "statusmanager", "volumemanager",
	"examples/nodeagent/node", "examples/nodeagent/node/admission", "examples/nodeagent/node/internal/deadline", "examples/nodeagent/node/internal/gate",
}

// measure prints how many of a sample of mutants of the deciders random node schedules notice, with no other test.
// All packages are compiled with their mutants at once. Survivors are no error: each is printed.
func measure(o options) error {
	start := time.Now()
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	all, overlay, err := instrumentAll(o, work)
	if err != nil {
		return err
	}
	noFate, err := readNoFate()
	if err != nil {
		return err
	}
	accepted, err := readAccepted(acceptedFiles)
	if err != nil {
		return err
	}
	wanted := slices.DeleteFunc(slices.Clone(all), func(m *mutant) bool {
		return !m.decider || !o.files.MatchString(m.place()) || noFate.cover(m) || accepted[m.key()] != ""
	})
	fmt.Printf("%d mutants of deciders that change a pod's fate, %d sampled, seed %d\n", len(wanted), min(len(wanted), o.n), o.seed)
	for _, line := range noFate.stale(all) {
		fmt.Printf("  nofate.txt lists a fault that does not exist: %s\n", line)
	}
	sampled := sampleByKey(wanted, o.n, o.seed)
	if o.list {
		for _, m := range sampled {
			fmt.Printf("%s %s [%s] %s\n", m.place(), m.function, m.kind, m.text)
		}
		return nil
	}
	return judgeAll(o, work, overlay, wanted, sampled, start)
}

// judgeAll runs the schedules with each mutant of the sample, and prints the results. With -reach it prints the mutants
// that no schedule reaches, too.
func judgeAll(o options, work, overlay string, wanted, sampled []*mutant, start time.Time) error {
	k, err := newKiller(&instrumented{root: o.root, work: work, overlay: overlay}, newSandbox(), "examples/nodeagent/nodetest", "^TestMatrix$", o.args)
	if err != nil {
		return err
	}
	built := since(start)
	k.learn(1)
	if len(k.tests) != 1 || k.tests[0].broken {
		verdict, why := k.run(0, k.tests, "", 5*time.Minute)
		return fmt.Errorf("the schedules without a mutant: %s, at a second try: %s", verdict, why)
	}
	fmt.Printf("built in %v, the schedules pass in %v without a mutant\n", built, since(start)-built)
	reached := 0
	for _, m := range wanted {
		if k.tests[0].reaches[m.id] {
			reached++
		} else if o.reach {
			fmt.Printf("%s %s [%s] %s\n", m.place(), m.function, m.kind, m.text)
		}
	}
	fmt.Printf("the schedules reach %d of all %d\n", reached, len(wanted))
	inParallel(o.workers, sampled, func(_ int, m *mutant) {
		began := time.Now()
		judge(m, []*killer{k}, o.patience)
		if o.verbose {
			fmt.Printf("  %-9s %s %s [%s] %s (%v)\n", m.verdict, m.place(), m.function, m.kind, m.text, since(began))
		}
	})
	printStrength(sampled)
	return nil
}

// instrumentAll compiles each package with its mutants, and returns the common overlay.
func instrumentAll(o options, work string) (all []*mutant, overlay string, err error) {
	pkgs, err := load(o.root, deciders)
	if err != nil {
		return nil, "", err
	}
	replace := map[string]string{}
	for i, pkg := range pkgs {
		folder := filepath.Join(work, strconv.Itoa(i))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return nil, "", err
		}
		p, err := instrument(o.root, folder, pkg, i*idsPerPackage+1)
		if err != nil {
			return nil, "", err
		}
		if _, err := p.build(); err != nil {
			return nil, "", err
		}
		maps.Copy(replace, p.replace)
		all = append(all, p.mutants()...)
	}
	overlay = filepath.Join(work, "overlay.json")
	return all, overlay, writeOverlay(overlay, replace)
}

// idsPerPackage is more than any package has mutants.
const idsPerPackage = 100_000

// sampleByKey returns n mutants, or all if n is zero. The choice of a mutant depends only on the mutant's key, so
// that a small change of the code changes the sample little.
func sampleByKey(wanted []*mutant, n int, seed uint64) []*mutant {
	chance := func(m *mutant) uint64 {
		h := fnv.New64a()
		fmt.Fprintf(h, "%d %s", seed, m.key())
		x := h.Sum64() // FNV alone keeps keys that differ at their end together
		x = (x ^ x>>33) * 0xff51afd7ed558ccd
		x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
		return x ^ x>>33
	}
	sampled := slices.SortedFunc(slices.Values(wanted), func(a, b *mutant) int { return cmp.Compare(chance(a), chance(b)) })
	if n > 0 && n < len(sampled) {
		sampled = sampled[:n]
	}
	slices.SortFunc(sampled, func(a, b *mutant) int { return cmp.Compare(a.id, b.id) })
	return sampled
}

// printStrength writes the survivors, and the shares of each package.
func printStrength(sampled []*mutant) {
	var folders []string
	counts := map[string]*tally{}
	sum := &tally{}
	for _, m := range sampled {
		if counts[m.pkg] == nil {
			counts[m.pkg] = &tally{}
			folders = append(folders, m.pkg)
		}
		for _, t := range []*tally{counts[m.pkg], sum} {
			t.sampled++
			if m.dead() {
				t.killed++
			}
		}
		if !m.dead() {
			fmt.Printf("  %-9s %s %s [%s] %s\n            %s\n", m.verdict, m.place(), m.function, m.kind, m.text, m.key())
		}
	}
	fmt.Printf("\n%-40s %s\n", "noticed by random schedules alone", "of the sample")
	for _, folder := range folders {
		fmt.Printf("%-40s %s\n", folder, counts[folder])
	}
	fmt.Printf("%-40s %s\n", "========", sum)
}
