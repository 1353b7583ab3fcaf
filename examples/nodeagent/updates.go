// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/updates"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
)

// updatesDir returns the folder with the records of updates.
func updatesDir(root string) string { return filepath.Join(root, "updates") }

// newUpdates returns the transactional updates of pods, or nil if the pods run only once.
func newUpdates(f flags) (*updates.Updates, error) {
	if f.once.on {
		return nil, nil
	}
	u, err := updates.New(updates.Options{Dir: updatesDir(f.root), Default: updates.Policy(f.updatePolicy)})
	if err != nil {
		return nil, fmt.Errorf("--update-policy %q: want %s or %s", f.updatePolicy, updates.Replace, updates.Transactional)
	}
	return u, nil
}

// followRequests passes requests of "nodeagent rollback" to u until ctx ends.
func followRequests(ctx context.Context, f flags, u *updates.Updates) {
	for ctx.Err() == nil {
		hints, err := fsnotify.Hinter{}.Hints(ctx, filepath.Join(updatesDir(f.root), "requests"))
		if err == nil {
			u.Poke() // a request before the watch was armed
			for range hints {
				u.Poke()
			}
		}
		_ = retry.Sleep(ctx, 10*time.Second)
	}
}

const historyUsage = `Usage: nodeagent history [POD] [flags]
       nodeagent rollback POD [VERSION] [flags]

history prints the versions of pods with transactional updates, the newest last.
rollback makes the agent run an earlier version: the one before, or the given
one. The version has to pass its gate, and stays until the manifest changes.
Both work beside a running agent. Without an agent, the next one does it.

Flags:
`

// changeVersions runs the commands "nodeagent history" and "nodeagent rollback", and returns the
// exit code.
func changeVersions(command string, args []string, out, errOut io.Writer) int {
	set := pflag.NewFlagSet("nodeagent "+command, pflag.ContinueOnError)
	root := set.String("root-dir", defaultRoot(), "folder for volumes and records")
	set.Usage = func() { fmt.Fprint(out, historyUsage, help(set)) }
	err := set.Parse(args)
	most := 1
	if command == "rollback" {
		most = 2
	}
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err == nil && set.NArg() > most:
		err = fmt.Errorf("%d arguments, want %d at most (see --help)", set.NArg(), most)
	case err == nil && command == "rollback" && set.Arg(0) == "":
		err = errors.New("want the name of a pod (see --help)")
	}
	var dir string
	if err == nil {
		dir, err = filepath.Abs(updatesDir(*root))
	}
	var units []updates.Unit
	if err == nil {
		units, err = unitsOf(dir, set.Arg(0))
	}
	switch {
	case err != nil:
	case command == "rollback":
		var hash string
		if hash, err = updates.Rollback(dir, units[0], set.Arg(1)); err == nil {
			fmt.Fprintf(out, "%s: version %s will run; see nodeagent history\n", units[0].Name, hash)
		}
	default:
		printHistory(out, units)
	}
	if err != nil {
		fmt.Fprintf(errOut, "nodeagent %s: %v\n", command, err)
		return 1
	}
	return 0
}

// unitsOf returns the units of a pod or group, or all units for the name "". The name of a static pod may
// lack the name of the node, as nodeagent ps shows it.
func unitsOf(dir, name string) ([]updates.Unit, error) {
	units, err := updates.Units(dir)
	if err != nil || name == "" {
		return units, err
	}
	full := name
	if !strings.Contains(name, "/") {
		full = "default/" + name
	}
	is := func(u updates.Unit, name string) bool {
		return u.Name == name || u.Name == "group "+name || slices.Contains(u.Pods, name)
	}
	for _, u := range units {
		if is(u, full) {
			return []updates.Unit{u}, nil
		}
	}
	for _, u := range units {
		if is(u, full+"-"+strings.ToLower(u.Node)) {
			return []updates.Unit{u}, nil
		}
	}
	return nil, fmt.Errorf("no pod %s with transactional updates in %s: a new pod is recorded when its first version has passed its gate or failed", full, dir)
}

func printHistory(out io.Writer, units []updates.Unit) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "POD\tVERSION\tTIME\tRESULT\tMESSAGE")
	for _, u := range units {
		for _, e := range u.Record.History {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", u.Name, e.Hash, e.Time.Format(time.DateTime), e.Reason, oneLine(e.Message))
		}
		r := &u.Record
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", u.Name, r.Runs(), r.Since.Format(time.DateTime), r.Phase, oneLine(r.Message))
	}
}
