// SPDX-License-Identifier: Apache-2.0

// Command mutants puts small faults into packages and runs the tests. A fault
// that survives all tests shows a promise without a test.
//
// All faults of a package are compiled into one binary, and the environment of a
// test process activates a single fault. A package is therefore built once. For
// each fault the tests that reach the fault run, quick tests first, until a test
// fails.
//
// The files of accepted list the mutants that no test should kill, with the
// reason. The command fails if any other mutant survives.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	root     string
	packages []string
	files    *regexp.Regexp
	n        int
	seed     uint64
	diff     string
	deciders bool
	shells   bool
	tests    []string // further packages with tests that may kill
	run      string   // tests of the further packages
	args     []string // of the further packages' tests
	alone    bool     // only the further packages' tests run
	workers  int
	verbose  bool
	strength bool
	list     bool          // with strength: print the sample, and judge nothing
	reach    bool          // with strength: print the mutants that no schedule reaches, too
	patience time.Duration // limit of a test process, in addition to five times the tests' duration
}

func parse(arguments []string) (options, error) {
	o := options{patience: 20 * time.Second}
	fs := flag.NewFlagSet("mutants", flag.ContinueOnError)
	fs.StringVar(&o.root, "root", ".", "the repository's root")
	pkgs := fs.String("pkg", "", "packages, like ./prober,./imagegc; empty: the seven parts or, with -diff, the changed ones")
	files := fs.String("files", "", "only mutants whose folder/file.go:line matches this expression")
	fs.IntVar(&o.n, "n", 0, "mutants per package; 0: 100 or, with -diff or -files, all")
	fs.Uint64Var(&o.seed, "seed", 1, "of the sample")
	fs.StringVar(&o.diff, "diff", "", "only lines that differ from this branch")
	fs.BoolVar(&o.deciders, "deciders", false, "only files of pure decisions")
	fs.BoolVar(&o.shells, "shells", false, "only other files")
	tests := fs.String("tests", "", "further packages whose tests run, after the package's own")
	fs.StringVar(&o.run, "run", ".", "which tests of these packages")
	args := fs.String("args", "", "arguments of these packages' tests")
	fs.BoolVar(&o.alone, "alone", false, "the package's own tests do not run")
	fs.IntVar(&o.workers, "workers", 2, "test processes at a time")
	fs.BoolVar(&o.verbose, "v", false, "print what killed each mutant, too")
	fs.BoolVar(&o.strength, "strength", false, "judge random node schedules, by mutants of all deciders of a pod's fate; with -n, -seed, -args, -workers, -v")
	fs.BoolVar(&o.list, "list", false, "with -strength: print the sample only")
	fs.BoolVar(&o.reach, "reach", false, "with -strength: print the mutants that no schedule reaches, too")
	if err := fs.Parse(arguments); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	var err error
	if o.files, err = regexp.Compile(*files); err != nil {
		return o, fmt.Errorf("-files: %w", err)
	}
	if o.n == 0 && o.diff == "" && *files == "" {
		o.n = 100
	}
	o.root, err = filepath.Abs(o.root)
	o.packages, o.tests, o.args = folders(*pkgs), folders(*tests), strings.Fields(*args)
	return o, err
}

// folders reads a list of packages.
func folders(list string) []string {
	split := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	for i, f := range split {
		split[i] = filepath.ToSlash(filepath.Clean(f))
	}
	return split
}

var parts = []string{
	"podconfig", "podworkers", "runtime", "runtime/podstatus", "prober", "volumemanager", "imagegc", "statusmanager",
}

// companions maps a package to other packages with tests of the package.
var companions = map[string][]string{
	"examples/nodeagent/node":                        {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/internal/declared":      {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/internal/deadline":      {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/feature":                {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/internal/gate":          {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/images":                 {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/internal/mirrors":       {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/internal/probes":        {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/internal/resize":        {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/internal/restartmemory": {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/shutdown":               {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/internal/statuses":      {"examples/nodeagent/nodetest"},
	"examples/nodeagent/node/volumes":                {"examples/nodeagent/nodetest", "examples/nodeagent/node"},
}

var errSurvivors = errors.New("mutants survive: each needs a test, or a line in tools/mutants/accepted with the reason")

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	switch {
	case err != nil:
	case o.strength:
		err = measure(o)
	default:
		err = mutate(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// wants reports whether the mutant is in a file of the wanted kind and name.
func (o options) wants(m *mutant) bool {
	return o.files.MatchString(m.place()) && (m.decider || !o.deciders) && (!m.decider || !o.shells)
}

func mutate(o options) error {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 10) // other programs of the machine go first
	accepted, err := readAccepted(acceptedFiles)
	if err != nil {
		return err
	}
	wanted := o.wants
	if o.diff != "" {
		changed, err := newChanges(o.root, o.diff)
		if err != nil {
			return err
		}
		if len(o.packages) == 0 {
			o.packages = changed.folders(o.root)
		}
		wanted = func(m *mutant) bool { return o.wants(m) && changed.touch(m) }
	} else if len(o.packages) == 0 {
		o.packages = parts
	}
	if len(o.packages) == 0 {
		fmt.Println("no code differs")
		return nil
	}
	pkgs, err := load(o.root, o.packages)
	if err != nil {
		return err
	}
	box, todo := newSandbox(), false
	var reports []*report
	for _, pkg := range pkgs {
		work, err := os.MkdirTemp("", "mutants")
		if err != nil {
			return err
		}
		r, err := try(o, box, work, pkg, wanted, accepted)
		os.RemoveAll(work)
		if err != nil {
			return err
		}
		if r != nil {
			reports = append(reports, r)
			todo = r.print(os.Stdout, accepted) || todo
		}
	}
	summary(os.Stdout, reports, accepted)
	if todo {
		return errSurvivors
	}
	return nil
}

// sample returns n mutants, or all if n is zero.
func sample(wanted []*mutant, n int, seed uint64) []*mutant {
	if n == 0 || n >= len(wanted) {
		return wanted
	}
	var chosen []*mutant
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(wanted))[:n] {
		chosen = append(chosen, wanted[i])
	}
	return chosen
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }
