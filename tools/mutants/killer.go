// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// killer is a test binary with the mutants in it.
type killer struct {
	sandbox sandbox
	binary  string
	dir     string
	args    []string // in addition to the choice of tests
	tests   []*test
}

// test is one test function, with facts of a run without a mutant.
type test struct {
	name    string
	took    time.Duration
	cost    time.Duration // processor time, without the start of a process
	reaches map[int]bool  // ids of mutants
	broken  bool          // the test fails without a mutant
}

// batchCost is the processor time of tests that share a process. A test with a higher cost has a
// process of its own, because the tests of a process run in the order of their source.
const batchCost = 300 * time.Millisecond

// newKiller builds the tests of a folder with p's mutants, and lists them.
func newKiller(p *instrumented, box sandbox, folder, pattern string, args []string) (*killer, error) {
	k := &killer{
		sandbox: box, binary: filepath.Join(p.work, strings.ReplaceAll(folder, "/", "-")+".test"),
		dir: filepath.Join(p.root, filepath.FromSlash(folder)), args: args,
	}
	out, err := p.goCommand("test", "-vet=off", "-overlay", p.overlay, "-c", "-o", k.binary, "./"+folder).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("tests of %s: %w\n%s", folder, err, out)
	}
	if _, err := os.Stat(k.binary); err != nil {
		return k, nil // no test files
	}
	c := box.command(context.Background(), k.dir, k.binary, "-test.list="+pattern)
	names, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("list of the tests of %s: %w", folder, err)
	}
	for _, name := range strings.Fields(string(names)) {
		if !strings.HasPrefix(name, "Benchmark") {
			k.tests = append(k.tests, &test{name: name})
		}
	}
	return k, nil
}

// learn runs each test alone and without a mutant, and notes the mutants that the
// test reaches and the duration.
func (k *killer) learn(workers int) {
	inParallel(workers, k.tests, func(i int, t *test) {
		trace := fmt.Sprintf("%s.%d.trace", k.binary, i)
		defer os.Remove(trace)
		start := time.Now()
		verdict, _, cost := k.execute(0, []*test{t}, trace, 5*time.Minute)
		t.took, t.cost, t.broken = time.Since(start), cost, verdict != lived
		t.reaches = map[int]bool{}
		text, err := os.ReadFile(trace)
		if err != nil {
			return // nothing was reached
		}
		for _, word := range strings.Fields(string(text)) {
			if id, err := strconv.Atoi(word); err == nil {
				t.reaches[id] = true
			}
		}
	})
	slices.SortStableFunc(k.tests, func(a, b *test) int { return cmp.Compare(a.cost, b.cost) })
	for _, t := range slices.Backward(k.tests) {
		t.cost -= k.tests[0].cost // a test that does next to nothing
	}
}

// inParallel calls f for each element of list on n goroutines.
func inParallel[T any](workers int, list []T, f func(int, T)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				f(i, list[i])
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	wg.Wait()
}

// batches returns the tests that reach the mutant, in processes: first the tests with the lowest
// cost.
func (k *killer) batches(id int) (batches [][]*test) {
	left := time.Duration(0)
	for _, t := range k.tests {
		if t.broken || !t.reaches[id] {
			continue
		}
		if left -= t.cost; left < 0 || batches == nil {
			batches, left = append(batches, nil), batchCost-t.cost
		}
		last := &batches[len(batches)-1]
		*last = append(*last, t)
	}
	return batches
}

// judge runs the tests that reach m until one fails.
func judge(m *mutant, killers []*killer, patience time.Duration) {
	m.verdict = uncovered
	for _, k := range killers {
		for _, batch := range k.batches(m.id) {
			limit := patience
			for _, t := range batch {
				limit += 5 * t.took
			}
			if m.verdict, m.by = k.run(m.id, batch, "", limit); m.verdict != lived {
				return
			}
		}
	}
}

var (
	failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	crash   = regexp.MustCompile(`(?m)^(panic: .{0,80}|fatal error: .{0,80})`)
)

// run runs tests with a mutant, 0 for none.
func (k *killer) run(id int, tests []*test, trace string, limit time.Duration) (verdict, string) {
	v, by, _ := k.execute(id, tests, trace, limit)
	return v, by
}

// execute is run, with the processor time of the tests.
func (k *killer) execute(id int, tests []*test, trace string, limit time.Duration) (v verdict, by string, cost time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	beats := time.NewTicker(beat)
	defer beats.Stop()
	go func() {
		if count(ctx, beats.C, int(limit/beat)) {
			cancel()
		}
	}()
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.name
	}
	args := append([]string{
		"-test.run=^(" + strings.Join(names, "|") + ")$", "-test.failfast", "-test.count=1", "-test.timeout=0",
	}, k.args...)
	c := k.sandbox.command(ctx, k.dir, k.binary, args...)
	c.Env = append(os.Environ(), "KEELSON_MUTANT="+strconv.Itoa(id), "KEELSON_MUTANT_TRACE="+trace)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if c.ProcessState != nil {
		cost = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	switch {
	case err == nil:
		return lived, "", cost
	case ctx.Err() != nil:
		return timedOut, "", cost
	}
	for _, cause := range []*regexp.Regexp{failure, crash} {
		if found := cause.FindStringSubmatch(out.String()); found != nil {
			return killed, found[1], cost
		}
	}
	return killed, lastLine(out.String()), cost
}

// beat is the unit of the limit of tests.
const beat = 100 * time.Millisecond

// count returns true after n beats, false if ctx ends before. A ticker drops the beats during which
// this process was stopped, so that tests that were stopped with it do not count as hanging.
func count(ctx context.Context, beats <-chan time.Time, n int) bool {
	for range n {
		select {
		case <-beats:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
