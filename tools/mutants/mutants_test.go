// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"
)

// judged runs all mutants of the package in a testdata archive.
func judged(t *testing.T, archive string, accepted accepted) *report {
	t.Helper()
	parsed, err := txtar.ParseFile(filepath.Join("testdata", archive))
	must(t, err)
	root := t.TempDir()
	for _, f := range parsed.Files {
		must(t, os.WriteFile(filepath.Join(root, f.Name), f.Data, 0o644))
	}
	t.Setenv("GOWORK", "off")
	pkgs, err := load(root, []string{"."})
	must(t, err)
	r, err := try(options{root: root, workers: 2, patience: 2 * time.Second}, newSandbox(), t.TempDir(), pkgs[0], func(*mutant) bool { return true }, accepted)
	must(t, err)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEachKindChangesBehaviour: a mutant that compiles to the same behaviour
// would be blamed on the tests.
func TestEachKindChangesBehaviour(t *testing.T) {
	r := judged(t, "strong.txt", nil)
	kinds := map[string]bool{}
	for _, m := range r.sampled {
		kinds[m.kind] = true
		if !m.dead() {
			t.Errorf("%s %s", m.verdict, m.key())
		}
	}
	want := []string{
		"arithmetic", "case-always", "case-empty", "case-never", "compare", "delete-assign", "delete-break", "delete-call",
		"delete-continue", "delete-defer", "delete-send", "drop-operand", "field-zero", "if-always", "if-never", "logic",
		"loop-never", "loop-once", "minmax", "not", "number", "order", "return-zero",
	}
	if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got, want) {
		t.Errorf("kinds %q, want %q", got, want)
	}
}

func TestSurvivors(t *testing.T) {
	accepted, err := parseAccepted(strings.Join([]string{
		"# what changes nothing", ". | Clamp | compare | n > 10: > → >=", "\tthe same at the boundary",
		". | Clamp | if-never | n > 10 → false", "\twrong: a test kills it",
		". | Gone | if-never | n > 10 → false", "\tof a function that is no more", "",
	}, "\n"))
	must(t, err)
	r := judged(t, "weak.txt", accepted)
	var out bytes.Buffer
	if !r.print(&out, accepted) {
		t.Error("there is something to do")
	}
	summary(&out, []*report{r}, accepted)
	for _, want := range []string{
		"fails without a mutant, so it was not asked: TestBroken",
		"LIVED     ./p.go:13 Clamp [compare] n < 0: < → <=",
		"UNCOVERED ./rule.go:5 Untested [number] 7 +1",
		"UNCOVERED ./rule.go:5 Untested [return-zero] 7 → zero",
		`accepted as "wrong: a test kills it", but TestClamp kills it`,
		". | Gone | if-never | n > 10 → false",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "n > 10: > → >=") {
		t.Errorf("accepted, but reported:\n%s", &out)
	}
	timeouts := slices.ContainsFunc(r.sampled, func(m *mutant) bool { return m.function == "Forever" && m.verdict == timedOut })
	if !timeouts {
		t.Error("a loop without its step ends by the time limit")
	}
	if d := r.count(accepted, true); d.killed != d.sampled-2 || d.accepted != 0 {
		t.Errorf("deciders: rule.go alone, all but the two of Untested; got %+v", d)
	}
	if s := r.count(accepted, false); s.accepted != 1 || s.killed >= s.sampled {
		t.Errorf("shells: p.go alone, one accepted; got %+v", s)
	}
}

func TestKindsOfFiles(t *testing.T) {
	for _, c := range []struct {
		arguments      []string
		decider, shell bool
	}{
		{nil, true, true}, {[]string{"-deciders"}, true, false}, {[]string{"-shells"}, false, true},
		{[]string{"-shells", "-files", "q.go"}, false, false},
	} {
		o, err := parse(c.arguments)
		must(t, err)
		if d, s := o.wants(&mutant{pkg: "a", file: "p.go", decider: true}), o.wants(&mutant{pkg: "a", file: "p.go"}); d != c.decider || s != c.shell {
			t.Errorf("%q: a decider %t, a shell %t", c.arguments, d, s)
		}
	}
}

// TestWhatDoesNotCompileIsTakenOut: one bad mutant does not cost the package.
func TestWhatDoesNotCompileIsTakenOut(t *testing.T) {
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module m\n\ngo 1.26\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "p.go"), []byte("package p\n\nfunc F(a, b int) bool {\n\tif a < 1 {\n\t\treturn false\n\t}\n\treturn a == b\n}\n"), 0o644))
	t.Setenv("GOWORK", "off")
	pkgs, err := load(root, []string{"."})
	must(t, err)
	p, err := instrument(root, t.TempDir(), pkgs[0], 1)
	must(t, err)
	all := len(p.mutants())
	for _, s := range p.sources[0].sites {
		if s.line == 7 {
			s.render = func(inner) string { return "nonsense" }
		}
	}
	dropped, err := p.build()
	must(t, err)
	if dropped == 0 || dropped >= all || slices.ContainsFunc(p.mutants(), func(m *mutant) bool { return m.line == 7 }) {
		t.Errorf("dropped %d of %d: %v", dropped, all, p.mutants())
	}
}

func TestParseAcceptedRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a | b | c | d\n":                          "no reason",
		"a | b | c | d\na | b | c | e\n\tx\n":      "no reason",
		"\treason\n":                               "without a mutant",
		"a | b\n\treason\n":                        "folder | function | kind | text",
		"a | b | c | d\n\tx\na | b | c | d\n\ty\n": "twice",
	} {
		if _, err := parseAccepted(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := readAccepted(acceptedFiles); err != nil {
		t.Error(err)
	}
}

func TestParseDiff(t *testing.T) {
	c := parseDiff(strings.Join([]string{
		"diff --git a/p/x.go b/p/x.go", "--- a/p/x.go", "+++ b/p/x.go", "@@ -3 +3,2 @@ func f", "-old", "+new", "+new",
		"@@ -9,2 +10,0 @@", "-gone", "-gone", "--- a/q/y_test.go", "+++ b/q/y_test.go", "@@ -1 +1 @@", "--- a/r/z.go", "+++ /dev/null", "",
	}, "\n"))
	root := t.TempDir()
	for _, file := range []string{"p/x.go", "q/y_test.go", "nested/go.mod", "nested/in/z.go", "testdata/a.go"} {
		must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, file), nil, 0o644))
	}
	c["nested/in/z.go"], c["testdata/a.go"], c["removed/b.go"] = nil, nil, nil
	if got := c.folders(root); !slices.Equal(got, []string{"p"}) {
		t.Errorf("folders %q", got)
	}
	for line, want := range map[int]bool{2: false, 3: true, 4: true, 5: false, 10: false} {
		if got := c.touch(&mutant{pkg: "p", file: "x.go", line: line, end: line}); got != want {
			t.Errorf("line %d: %v", line, got)
		}
	}
	if !c.touch(&mutant{pkg: "p", file: "x.go", line: 1, end: 3}) || c.touch(&mutant{pkg: "p", file: "other.go", line: 3, end: 3}) {
		t.Error("a mutant is of the change if any of its lines is, in its own file")
	}
	c["p/new.go"] = nil
	if !c.touch(&mutant{pkg: "p", file: "new.go", line: 77, end: 77}) {
		t.Error("all of a file that git does not know has changed")
	}
}

func TestSampleIsSeeded(t *testing.T) {
	var all []*mutant
	for i := range 100 {
		all = append(all, &mutant{id: i})
	}
	a, b, c := sample(all, 10, 1), sample(all, 10, 1), sample(all, 10, 2)
	if len(a) != 10 || !slices.Equal(a, b) || slices.Equal(a, c) || len(sample(all, 0, 1)) != 100 {
		t.Errorf("%v %v %v", a, b, c)
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-pkg", "./prober,./imagegc/", "-files", "plan.go:3"})
	must(t, err)
	if !slices.Equal(o.packages, []string{"prober", "imagegc"}) || o.n != 0 || !o.files.MatchString("prober/plan.go:31") {
		t.Errorf("%+v", o)
	}
	for _, bad := range [][]string{{"-files", "("}, {"prober"}, {"-nonsense"}} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is wrong", bad)
		}
	}
	if !regexp.MustCompile(`^\d+/\d+ \(\d+ %\)$`).MatchString(tally{killed: 1, sampled: 2}.String()) {
		t.Error(tally{killed: 1, sampled: 2})
	}
}

// TestSampleByKeyIsStable: mutants that come and go elsewhere do not change which others are in a sample, but for room.
func TestSampleByKeyIsStable(t *testing.T) {
	var all []*mutant
	for i := range 1000 {
		all = append(all, &mutant{id: i, pkg: "p", function: "f", kind: "k", text: strconv.Itoa(i)})
	}
	sampled := sampleByKey(all, 100, 1)
	if len(sampled) != 100 || !slices.Equal(sampled, sampleByKey(all, 100, 1)) {
		t.Fatalf("%d mutants, or not the same each time", len(sampled))
	}
	if slices.Equal(sampled, sampleByKey(all, 100, 2)) {
		t.Error("the seed does not count")
	}
	fewer := slices.DeleteFunc(slices.Clone(all), func(m *mutant) bool { return m == sampled[50] })
	kept := 0
	for _, m := range sampleByKey(fewer, 100, 1) {
		if slices.Contains(sampled, m) {
			kept++
		}
	}
	if kept != 99 {
		t.Errorf("%d of 100 are kept when one mutant is no more", kept)
	}
}

// TestNoFateReadsItsRules: each rule is an expression, and has a reason.
func TestNoFateReadsItsRules(t *testing.T) {
	rules, err := readNoFate()
	must(t, err)
	if reasons := strings.Count(noFateText, "\n\t"); len(rules) == 0 || reasons != len(rules) {
		t.Errorf("%d rules and %d reasons", len(rules), reasons)
	}
	text := &mutant{pkg: "runtime", file: "events.go", function: "f", kind: "if-never", text: "x → false"}
	fate := &mutant{pkg: "runtime", file: "plan.go", function: "f", kind: "if-never", text: "x → false"}
	if !rules.cover(text) || rules.cover(fate) {
		t.Error("events have no part in a fate, and plans have")
	}
	if stale := rules.stale([]*mutant{text}); len(stale) != len(rules)-1 {
		t.Errorf("%d of %d rules are stale", len(stale), len(rules))
	}
}

// The limit of tests counts beats, not time: the time during which the process is stopped is no part of the limit.
func TestLimitCountsBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		beats, ended := make(chan time.Time), make(chan bool, 1)
		go func() { ended <- count(ctx, beats, 2) }()
		beats <- time.Now()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatal("ended after one beat")
		}
		beats <- time.Now()
		if !<-ended {
			t.Fatal("two beats are the limit")
		}
		go func() { ended <- count(ctx, beats, 2) }()
		cancel()
		if <-ended {
			t.Fatal("the end of the context is no limit")
		}
	})
}
