// SPDX-License-Identifier: Apache-2.0

//go:build !nolocalapi

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
)

// verb is a command for the agent of this machine, such as "nodeagent ps".
type verb struct {
	name, args, about string
	least, most       int  // number of arguments; most < 0: any
	command           bool // the arguments after the first are a command with flags of its own
	flags             func(*pflag.FlagSet, *verbFlags)
	run               func(ctx context.Context, c *call) error
}

// verbFlags are the flags of verbs. Each verb has some of them.
type verbFlags struct {
	root, socket, namespace string

	output           string
	quiet            bool
	selector         string
	follow, previous bool
	times            bool
	tail             int
	since            time.Duration
	stdin, tty       bool
	file             string
	watch            bool
}

// call is a run of a verb.
type call struct {
	*client
	verbFlags
	args    []string
	in      *os.File
	out     io.Writer
	errOut  io.Writer
	changed func(flag string) bool
}

// verbs returns the commands. Their documentation is docs/local-api.md.
func verbs() []verb {
	pod := func(f func(*pflag.FlagSet, *verbFlags)) func(*pflag.FlagSet, *verbFlags) {
		return func(set *pflag.FlagSet, v *verbFlags) {
			set.StringVarP(&v.namespace, "namespace", "n", v1.NamespaceDefault, "namespace of the pod")
			if f != nil {
				f(set, v)
			}
		}
	}
	file := func(set *pflag.FlagSet, v *verbFlags) {
		set.StringVarP(&v.file, "filename", "f", "", "manifest")
	}
	return []verb{
		{name: "ps", about: "list the pods of all namespaces", run: listPods, flags: func(set *pflag.FlagSet, v *verbFlags) {
			set.StringVarP(&v.output, "output", "o", "", "wide or json")
			set.BoolVarP(&v.quiet, "quiet", "q", false, "print names only")
			set.StringVarP(&v.selector, "selector", "l", "", "labels of the pods, as `key=value,...`")
		}},
		{name: "describe", args: "POD", about: "show the state of a pod and its events", least: 1, most: 1, run: describePod, flags: pod(nil)},
		{name: "logs", args: "POD[/CONTAINER]", about: "print the log of a container", least: 1, most: 1, run: printLogs, flags: pod(func(set *pflag.FlagSet, v *verbFlags) {
			set.BoolVarP(&v.follow, "follow", "f", false, "print new lines as they come")
			set.BoolVarP(&v.previous, "previous", "p", false, "the log of the container before the last restart")
			set.BoolVarP(&v.times, "timestamps", "t", false, "print the time of each line")
			set.IntVar(&v.tail, "tail", -1, "number of last lines; -1 = all")
			set.DurationVar(&v.since, "since", 0, "only lines of this last time, such as 10m")
		})},
		{name: "exec", args: "POD[/CONTAINER] -- COMMAND [ARGUMENT...]", about: "run a command in a container; its exit code is that of the command, or 125", least: 2, most: -1, command: true, run: execInPod, flags: pod(func(set *pflag.FlagSet, v *verbFlags) {
			set.BoolVarP(&v.stdin, "stdin", "i", false, "pass standard input")
			set.BoolVarP(&v.tty, "tty", "t", false, "give the command a terminal")
		})},
		{name: "cp", args: "FILE POD[/CONTAINER]:FILE | POD[/CONTAINER]:FILE FILE", about: "copy a file into or out of a container", least: 2, most: 2, run: copyFile, flags: pod(nil)},
		{name: "restart", args: "POD", about: "stop a pod and start it again", least: 1, most: 1, run: restartPod, flags: pod(nil)},
		{name: "apply", args: "-f FILE", about: "write a manifest into the agent's folder; - is standard input", run: applyFile, flags: pod(file)},
		{name: "rm", args: "POD... | -f FILE", about: "remove applied manifests and wait for the end of their pods; other pods are restarted", most: -1, run: removePods, flags: pod(file)},
		{name: "events", about: "list the events of the last hour", run: listEvents, flags: func(set *pflag.FlagSet, v *verbFlags) {
			set.BoolVarP(&v.watch, "watch", "w", false, "print new events as they come")
		}},
		{name: "top", about: "show processor time and memory of the containers", run: printUsage},
		{name: "images", about: "list the images on the node", run: listImages},
		{name: "kubeconfig", about: "print a kubeconfig for kubectl; the agent needs --kubectl-port", run: func(ctx context.Context, c *call) error {
			return printKubeconfig(ctx, c.client, c.out)
		}},
		{name: "token", about: "print a token for kubectl, which calls this by itself", run: func(ctx context.Context, c *call) error {
			return printToken(ctx, c.client, c.out)
		}},
		{name: "completion", about: "print the completion of commands for bash: source <(nodeagent completion)", run: printCompletion},
	}
}

// flagSet returns the flags of a verb, whose values go to f.
func (v *verb) flagSet(f *verbFlags) *pflag.FlagSet {
	set := pflag.NewFlagSet("nodeagent "+v.name, pflag.ContinueOnError)
	set.SortFlags = false
	if v.flags != nil {
		v.flags(set, f)
	}
	set.StringVar(&f.root, "root-dir", defaultRoot(), "root folder of the agent")
	set.StringVar(&f.socket, "socket", "", "socket of the agent (default "+defaultSocket(defaultRoot())+", or ROOT-DIR/node.sock)")
	return set
}

// flagsEndAtDashes reports whether only flags stand between the first argument and "--", as in
// "POD --root-dir X -- COMMAND". Otherwise the flags end at the first argument: in
// "POD git checkout -- FILE", the dashes belong to the command.
func flagsEndAtDashes(v *verb, args []string) bool {
	set := v.flagSet(&verbFlags{})
	set.Usage = func() {}
	_ = set.Parse(args)
	return set.ArgsLenAtDash() == 1
}

// parse sets the flags and arguments of c. The error is pflag.ErrHelp after the help was printed.
func (v *verb) parse(c *call, args []string) error {
	set := v.flagSet(&c.verbFlags)
	dashed := flagsEndAtDashes(v, args)
	set.SetInterspersed(!v.command || dashed)
	set.Usage = func() {
		fmt.Fprintf(c.out, "Usage: nodeagent %s\n\n%s.\n\nFlags:\n%s", strings.TrimSpace(v.name+" "+v.args+" [flags]"), strings.ToUpper(v.about[:1])+v.about[1:], help(set))
	}
	err := set.Parse(args)
	c.args, c.changed = set.Args(), set.Changed
	if c.verbFlags.socket == "" {
		c.verbFlags.socket = defaultSocket(c.root)
	}
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case err != nil:
		return flagError(set, err)
	case len(c.args) < v.least || v.most >= 0 && len(c.args) > v.most || len(c.args) > 0 && c.args[0] == "":
		return fmt.Errorf("want nodeagent %s (see --help)", strings.TrimSpace(v.name+" "+v.args))
	case v.command && !dashed && strings.HasPrefix(c.args[1], "-"):
		return fmt.Errorf("%s: put -- between the flags and the command, as in %s %s -- COMMAND", c.args[1], v.name, c.args[0])
	case c.tail < -1:
		return fmt.Errorf("--tail %d: want 0 or more, or -1 for all lines", c.tail)
	case c.since < 0:
		return fmt.Errorf("--since %s: want a time above 0, such as 10m", c.since)
	}
	return nil
}

// exitError is the exit code of a command in a container.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// interrupted is the exit code after Ctrl-C, as shells know it.
const interrupted = 130

// runCommand runs a command such as "nodeagent ps". isCommand is false for other arguments.
func runCommand(args []string, out, errOut io.Writer) (code int, isCommand bool) {
	i := -1
	if len(args) > 0 {
		i = slices.IndexFunc(verbs(), func(v verb) bool { return v.name == args[0] })
	}
	if i < 0 {
		return 0, false
	}
	v := verbs()[i]
	c := &call{in: os.Stdin, out: out, errOut: errOut}
	err := v.parse(c, args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return 0, true
	}
	if err != nil {
		fmt.Fprintf(errOut, "nodeagent %s: %v\n", v.name, err)
		return 2, true
	}
	c.client = newClient(c.verbFlags.socket)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err = v.run(ctx, c)
	if exit, ok := errors.AsType[exitError](err); ok {
		return int(exit), true
	}
	if err == nil {
		return 0, true
	}
	if ctx.Err() != nil {
		return interrupted, true
	}
	fmt.Fprintf(errOut, "nodeagent %s: %v\n", v.name, err)
	if v.name == "exec" {
		return 125, true
	}
	return 1, true
}

// printCompletion prints a script for bash. Names of pods are completed, too.
func printCompletion(_ context.Context, c *call) error {
	var names []string
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	_, err := fmt.Fprintf(c.out, `_nodeagent() {
	local word=${COMP_WORDS[COMP_CWORD]}
	if [ "$COMP_CWORD" = 1 ]; then
		COMPREPLY=($(compgen -W "%s audit history rollback" -- "$word") $(compgen -d -- "$word"))
		return
	fi
	case ${COMP_WORDS[1]} in
	describe|logs|exec|restart|rm|cp) COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" ps -q 2>/dev/null)" -- "$word"));;
	esac
}
complete -o default -F _nodeagent nodeagent
`, strings.Join(names, " "))
	return err
}
