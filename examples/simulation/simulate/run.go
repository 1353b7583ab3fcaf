// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-dev/keelson/examples/simulation/internal/pace"
	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/agents"
	"github.com/keelson-dev/keelson/examples/simulation/sim/report"
)

// output are the files of a report.
type output struct {
	html, csv, journal string
}

func (o *output) flags(set *flag.FlagSet) {
	set.StringVar(&o.html, "html", "", "write the report to this `file`, a self-contained page")
	set.StringVar(&o.csv, "csv", "", "write the report to CSV files in this `folder`")
}

// write writes the report of runs.
func (o *output) write(stdout io.Writer, runs ...*sim.Report) error {
	if err := report.WriteText(stdout, runs...); err != nil {
		return err
	}
	if o.csv != "" {
		if err := report.WriteCSV(o.csv, runs...); err != nil {
			return err
		}
	}
	if o.html == "" {
		return nil
	}
	return create(o.html, func(w io.Writer) error { return report.WriteHTML(w, runs...) })
}

// create writes a file.
func create(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var in input
	var out output
	set := flag.NewFlagSet("simulate run", flag.ContinueOnError)
	in.flags(set, "kube")
	out.flags(set)
	set.StringVar(&out.journal, "journal", "", "write the journal to this `file`, JSON lines; with -csv also pods.csv")
	if err := parse(set, args, stderr); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("run: unexpected argument %q", set.Arg(0))
	}
	policies := strings.Split(in.policy, ",")
	if len(policies) != 1 {
		return fmt.Errorf("run: -policy %s: run has a single policy; compare has several", in.policy)
	}
	source, err := in.open()
	if err != nil {
		return err
	}
	options, err := source.options(policies[0], in.seed)
	if err != nil {
		return err
	}
	var r *sim.Report
	if out.journal == "" {
		r, err = in.simulate(ctx, options)
	} else {
		err = create(out.journal, func(w io.Writer) (err error) {
			options.Journal = w
			r, err = in.simulate(ctx, options)
			return err
		})
	}
	if err != nil {
		return err
	}
	if err := out.write(stdout, r); err != nil {
		return err
	}
	if out.csv == "" || out.journal == "" {
		return nil
	}
	journal, err := os.Open(out.journal)
	if err != nil {
		return err
	}
	defer journal.Close()
	return create(filepath.Join(out.csv, "pods.csv"), func(w io.Writer) error { return report.WritePods(w, journal, out.journal) })
}

// simulate runs a scheduler.
func (in *input) simulate(ctx context.Context, o sim.Options) (*sim.Report, error) {
	switch in.backend {
	case "agents":
		defer pace.Set()()
		return agents.Run(ctx, o)
	case "api":
		config, err := clientcmd.BuildConfigFromFlags("", in.kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("-kubeconfig: %w", err)
		}
		return agents.RunAPI(ctx, agents.APIOptions{Config: config, Namespace: in.namespace}, o)
	}
	s, err := sim.New(o)
	if err != nil {
		return nil, err
	}
	return s.Run(ctx)
}

func compareCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var in input
	var out output
	set := flag.NewFlagSet("simulate compare", flag.ContinueOnError)
	in.flags(set, "kube,kube-most-allocated")
	out.flags(set)
	if err := parse(set, args, stderr); err != nil {
		return err
	}
	var runs []*sim.Report
	if set.NArg() > 0 {
		var err error
		set.Visit(func(f *flag.Flag) {
			if f.Name != "html" && f.Name != "csv" {
				err = fmt.Errorf("compare: -%s has no effect on journals", f.Name)
			}
		})
		if err != nil {
			return err
		}
		for _, path := range set.Args() {
			r, err := readJournal(path)
			if err != nil {
				return err
			}
			runs = append(runs, r)
		}
		return out.write(stdout, runs...)
	}
	policies := strings.Split(in.policy, ",")
	if len(policies) < 2 || len(policies) > 6 {
		return fmt.Errorf("compare: -policy %s: want two to six policies", in.policy)
	}
	source, err := in.open()
	if err != nil {
		return err
	}
	for _, policy := range policies {
		options, err := source.options(policy, in.seed)
		if err != nil {
			return err
		}
		r, err := in.simulate(ctx, options)
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	return out.write(stdout, runs...)
}

func readJournal(path string) (*sim.Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return report.Read(file, path)
}
