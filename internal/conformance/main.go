// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command conformance runs upstream's conformance specs on a node of the kubelet and on a node of
// the node agent, one after the other, each with its own cluster on this machine: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, containerd and a pod network. It prints
// a table of the results, and names every spec with different results. The images are made of
// programs of this machine, so that no registry is needed. kube-proxy and CoreDNS run outside pods.
//
// A spec that fails is run once more, alone. The list skips.txt has the specs that cannot pass
// here, with reasons.
//
// With -session, the command records a user's session with kubectl instead, on a node of each agent,
// and prints the lines that differ. The list session.txt has the lines that may differ, with reasons.
//
// With -eviction, the command records the scenario of eviction.sh in the same way: pods on a node that
// runs out of memory, disk, inodes and process IDs. The list eviction.txt has the lines that may differ.
//
// With -stats, the command runs 100 pods on a node of each agent. It prints the processor time that
// each agent needs to measure the pods for the usual readers, and the fields of the Summary API
// that only the kubelet fills.
//
// With -node, the command runs upstream's specs of nodes, e2e_node.test, about evictions, statistics,
// cgroups and devices. The node has a disk and a cgroup namespace of its own, and a stand-in for
// systemctl, with which the specs restart the agent after they have changed its configuration file.
// The list nodeskips.txt has the specs that do not run here.
//
// KEELSON_APISERVER_DIR is the folder of e2e/conformance.sh, KEELSON_CONTAINERD_DIR is the folder of
// e2e/containerd.sh, and KEELSON_COREDNS is the program of e2e/program.sh coredns. The command needs
// root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/keelson-dev/keelson/internal/apiservertest"
)

// options are the flags of the command.
type options struct {
	programs  string // folder of e2e/conformance.sh
	coredns   string
	agent     string
	flags     string // further flags of the node agent
	only      string
	focus     string
	short     bool
	resources bool // run the specs of resources.txt
	listed    bool // also run the specs of the list of skips
	runs      int
	procs     int
	out       string
	hold      bool
	session   bool
	stats     bool
	eviction  bool
	node      bool // run upstream's specs of nodes
}

// errSpecs is returned if a spec failed with the node agent that does not fail with the kubelet.
var errSpecs = errors.New("specs failed, see above")

func main() {
	o := options{programs: os.Getenv(apiservertest.DirVariable), coredns: os.Getenv(corednsVariable)}
	flag.StringVar(&o.agent, "agent", "bin/nodeagent", "the node agent")
	flag.StringVar(&o.flags, "agent-flags", "", "further flags of the node agent, separated by spaces")
	flag.StringVar(&o.only, "only", "", "run the specs with this agent only: kubelet or keelson")
	flag.StringVar(&o.focus, "focus", "", "run the specs that match this regular expression instead of the selection")
	flag.BoolVar(&o.short, "short", false, "run the specs of short.txt, which take a few minutes")
	flag.BoolVar(&o.resources, "resources", false, "run the specs of resources.txt, about the resources of a node")
	flag.BoolVar(&o.listed, "listed", false, "also run the specs of skips.txt")
	flag.IntVar(&o.runs, "runs", 1, "how often all specs are run with each agent")
	flag.IntVar(&o.procs, "procs", 12, "how many specs are run at the same time")
	flag.StringVar(&o.out, "out", "bin/conformance", "folder for results and logs; removed before the run")
	flag.BoolVar(&o.hold, "hold", false, "start the cluster of -only, print its kubeconfig, and run no specs until an interrupt")
	flag.BoolVar(&o.session, "session", false, "record the session of session.sh with each agent instead of specs, and print the differences")
	flag.BoolVar(&o.eviction, "eviction", false, "let the node of each agent run out of memory, disk, inodes and process IDs instead of running specs, and print the differences")
	flag.BoolVar(&o.node, "node", false, "run upstream's specs of nodes (e2e_node.test) that are in nodespecs.txt, which restart the agent")
	flag.BoolVar(&o.stats, "stats", false, "measure the processor time that each agent needs to measure 100 pods, instead of running specs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, o)
	switch {
	case errors.Is(err, errInside): // the exit code is that of the inner process
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	inside, err := enterNamespace(ctx, o.node)
	if !inside || err != nil {
		return err
	}
	if o.hold {
		return hold(ctx, o)
	}
	if err := errors.Join(os.RemoveAll(o.out), os.MkdirAll(o.out, 0o755)); err != nil {
		return err
	}
	if o.session || o.eviction {
		return runSession(ctx, o)
	}
	if o.stats {
		return runStats(ctx, o)
	}
	selection, err := newSelection(o)
	if err != nil {
		return err
	}
	all := results{}
	for number := 1; number <= o.runs && ctx.Err() == nil; number++ {
		for _, agent := range o.agents() {
			outcomes, err := runAgent(ctx, o, agent, number, selection)
			if err != nil {
				return fmt.Errorf("%s, run %d: %w", agent, number, err)
			}
			all[agent] = append(all[agent], outcomes)
			if err := writeOutcomes(filepath.Join(o.out, "results.tsv"), all); err != nil {
				return err
			}
		}
	}
	fmt.Print(all.summary())
	if differences := all.differences(); len(differences) > 0 {
		fmt.Print(describe(differences))
	}
	if len(all.faults()) > 0 {
		return errSpecs
	}
	return ctx.Err()
}

// check validates the flags and makes paths absolute.
func (o *options) check() error {
	var errs [2]error
	o.agent, errs[0] = filepath.Abs(o.agent)
	o.out, errs[1] = filepath.Abs(o.out)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	_, err := regexp.Compile(o.focus)
	switch {
	case err != nil:
		return fmt.Errorf("-focus: %w", err)
	case o.only != "" && o.only != kubelet && o.only != keelson:
		return fmt.Errorf("-only %s: want %s or %s", o.only, kubelet, keelson)
	case o.hold && o.only == "":
		return errors.New("-hold needs -only")
	case o.runs < 1 || o.procs < 1:
		return fmt.Errorf("-runs %d -procs %d: want 1 or more", o.runs, o.procs)
	case o.programs == "":
		return fmt.Errorf("%s is not set (%s=$(e2e/conformance.sh) builds one, in half an hour)", apiservertest.DirVariable, apiservertest.DirVariable)
	case o.coredns == "":
		return fmt.Errorf("%s is not set (%s=$(e2e/program.sh coredns) builds one, in minutes)", corednsVariable, corednsVariable)
	case o.session && os.Getenv(metricsServerVariable) == "":
		return fmt.Errorf("-session: %s is not set (%s=$(e2e/program.sh metrics-server) builds one, in minutes)", metricsServerVariable, metricsServerVariable)
	case os.Geteuid() != 0:
		return errors.New("needs root")
	}
	return nil
}

// agents returns the agents in the order of their runs.
func (o *options) agents() []string {
	if o.only != "" {
		return []string{o.only}
	}
	return []string{kubelet, keelson}
}
