// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

const auditUsage = `Usage: nodeagent audit [flags]

Lists the leftovers of earlier agents: processes, mounts, folders, records and
objects of the container runtime that belong to no pod. Without --collect the audit
changes nothing, and may run beside an agent. The list may then have objects that
the agent is just creating or removing, so run the audit twice.

The exit code is 0 without leftovers, 1 with leftovers, and 2 if the audit failed.

Flags:
`

// finding is one line of the audit's output.
type finding struct {
	kind, what string
	ours       string // "yes", "no", "collected"
	why        string
}

// audit runs the command "nodeagent audit" and returns the exit code.
func audit(args []string, out, errOut io.Writer) int {
	var f flags
	set := pflag.NewFlagSet("nodeagent audit", pflag.ContinueOnError)
	set.StringVar(&f.root, "root-dir", defaultRoot(), "folder for volumes and records")
	set.StringVar(&f.endpoint, "container-runtime-endpoint", processEndpoint, "backend of the containers: \"process\" or unix:///path")
	var collect bool
	set.BoolVar(&collect, "collect", false, "remove the leftovers that provably belong to the agent; no agent may run at the same time")
	set.Usage = func() { fmt.Fprint(out, auditUsage, help(set)) }
	err := set.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err == nil && set.NArg() > 0:
		err = fmt.Errorf("audit takes no argument, got %q (see --help)", set.Arg(0))
	case err == nil:
		f.root, err = filepath.Abs(f.root)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	left := 0
	if err == nil {
		left, err = runAudit(ctx, f, collect, out)
	}
	switch {
	case err != nil:
		fmt.Fprintln(errOut, "nodeagent audit:", err)
		return 2
	case left > 0:
		return 1
	}
	return 0
}

// runAudit prints all leftovers and returns the number of leftovers that stay. After a partial
// failure it prints the leftovers found so far.
func runAudit(ctx context.Context, f flags, collect bool, out io.Writer) (left int, err error) {
	if _, err := os.Stat(f.root); err != nil {
		return 0, fmt.Errorf("--root-dir: %w", err)
	}
	if collect {
		lock, err := node.LockRoot(ctx, f.root, nil)
		if err != nil {
			return 0, fmt.Errorf("--collect: %w", err)
		}
		defer lock.Unlock()
	}
	rt, closeRuntime, err := auditedRuntime(ctx, f)
	if err != nil {
		return 0, err
	}
	defer closeRuntime()
	found, runtimeErr := auditRuntime(ctx, rt, collect)
	volumes, volumesErr := auditVolumes(ctx, f.root, rt)
	found = append(found, volumes...)
	for _, one := range found {
		if one.ours != "collected" {
			left++
		}
	}
	return left, errors.Join(runtimeErr, volumesErr, printFindings(out, found))
}

// auditedRuntime opens the runtime of --container-runtime-endpoint. Unlike the agent, the audit
// does not wait for a container runtime.
func auditedRuntime(ctx context.Context, f flags) (rt runtime.Runtime, closeIt func(), err error) {
	if f.endpoint == processEndpoint {
		return newRuntime(ctx, f, nil, zap.NewNop())
	}
	backend, err := cri.Dial(ctx, f.endpoint, cri.Options{Root: f.root})
	if err != nil {
		return nil, nil, fmt.Errorf("--container-runtime-endpoint: %w", err)
	}
	return backend, func() { backend.Close() }, nil
}

// auditRuntime returns the leftovers of the runtime. If collect is set, auditRuntime removes the
// leftovers that belong to the agent.
func auditRuntime(ctx context.Context, rt runtime.Runtime, collect bool) ([]finding, error) {
	auditor, ok := rt.(runtime.Auditor)
	if !ok {
		return nil, nil
	}
	found, err := auditor.Leftovers(ctx)
	errs := []error{err}
	var out []finding
	for _, l := range found {
		one := finding{kind: string(l.Kind), what: l.Path, ours: "no", why: l.Why}
		if l.Path == "" {
			one.what = l.ID
			if l.PID != 0 {
				one.what = strconv.Itoa(l.PID) + " " + l.ID
			}
		}
		if l.Ours {
			one.ours = "yes"
		}
		if collect && l.Ours {
			if err := auditor.Collect(ctx, l); err != nil {
				errs = append(errs, err)
			} else {
				one.ours = "collected"
			}
		}
		out = append(out, one)
	}
	return out, errors.Join(errs...)
}

func printFindings(out io.Writer, found []finding) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "Nothing is left behind.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tWHAT\tOURS\tWHY")
	for _, one := range found {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", one.kind, one.what, one.ours, one.why)
	}
	return w.Flush()
}
