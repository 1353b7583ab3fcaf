// SPDX-License-Identifier: Apache-2.0

// Command simulate runs schedulers in virtual time, and reports.
//
//	simulate run     [flags]                a scheduler on a workload
//	simulate compare [flags] [JOURNAL...]   several schedulers on the same workload, or journals
//	simulate table   -trace openb:FOLDER    the published table of the traces openb
//
// The tables and the page have the seed, the hash of the trace and the source of the durations.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

const usage = `simulate runs schedulers in virtual time, and reports.

usage:
  simulate run     [flags]                a scheduler on a workload
  simulate compare [flags] [JOURNAL...]   up to six schedulers on the same workload, or journals of runs
  simulate table   -trace openb:FOLDER    the published table of the traces openb: each pod list,
                                          six policies, ten seeds

"simulate COMMAND -help" lists the flags. Two policies on a public trace, and a page:
  simulate compare -trace openb:FOLDER -policy BestFit,FGD -html page.html
`

// errUsage is the error of a command line that flag has already explained.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

// run runs a command.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "run":
		return runCommand(ctx, args, stdout, stderr)
	case "compare":
		return compareCommand(ctx, args, stdout, stderr)
	case "table":
		return tableCommand(ctx, args, stdout, stderr)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return nil
	case "":
		fmt.Fprint(stderr, usage)
		return errUsage
	}
	return fmt.Errorf("no command is named %q; the commands are run, compare and table", name)
}

// parse reads the flags of a command, and refuses arguments unless they are wanted.
func parse(set *flag.FlagSet, args []string, stderr io.Writer) error {
	set.SetOutput(stderr)
	err := set.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return errUsage
	}
	return err
}
