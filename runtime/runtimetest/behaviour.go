// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// AtOnce as Behaviour.ExitAfter lets a container exit after its last line of output.
const AtOnce = time.Nanosecond

// Behaviour describes the main process of a container, or a command of Exec, as data: first the
// process prints, then it runs, then it exits. With the zero value the process prints nothing, runs
// until it is stopped, and exits with code 0 on SIGTERM.
type Behaviour struct {
	// CannotStart: the program does not exist. All other fields are ignored.
	CannotStart bool

	// The process prints Print, PrintErr, PrintEnv and PrintDir in this order. Each value is a line.
	Print    []string // to stdout
	PrintErr []string // to stderr
	PrintEnv []string // "NAME=value" of these variables, to stdout; unset: "NAME="
	PrintDir bool     // "dir=" and the working directory, to stdout
	// PrintArgs prints a line "arg=…" for each of ContainerSpec.Args to stdout.
	PrintArgs bool
	// PrintLong prints a line of PrintLong characters 'x' to stdout. 0: none.
	PrintLong int
	// PrintTail is printed last, to stdout, without a newline.
	PrintTail string

	// ExitAfter is the time before the process exits by itself. 0: never.
	ExitAfter time.Duration
	ExitCode  int32

	// IgnoreTerm: SIGTERM has no effect. Otherwise the process exits with TermCode after TermAfter.
	IgnoreTerm bool
	TermAfter  time.Duration
	TermCode   int32

	// Spawn also starts a child process. The child ignores SIGTERM and lives until it is killed.
	// Ten times a second it prints "beat" to stdout. (Output omits the lines of the child, because
	// a backend without processes has no children.)
	Spawn bool
}

// Shell translates b into a command for a POSIX shell. PrintArgs prints the arguments appended to
// the command.
func Shell(b Behaviour) []string {
	if b.CannotStart {
		return []string{"/runtimetest/no/such/program"}
	}
	var s strings.Builder
	// As process 1 of a container, a shell has no default action for SIGTERM, so the shell always
	// has a trap. Commands run by the trap ignore further signals.
	if b.IgnoreTerm {
		s.WriteString("trap '' TERM\n")
	} else {
		fmt.Fprintf(&s, "trap \"trap '' TERM; kill \\$! 2>/dev/null; sleep %s; exit %d\" TERM\n", seconds(b.TermAfter), b.TermCode)
	}
	if b.Spawn {
		s.WriteString("( trap '' TERM; while :; do echo beat; sleep 0.1; done ) &\n")
	}
	for _, line := range b.Print {
		fmt.Fprintf(&s, "printf '%%s\\n' %s\n", quote(line))
	}
	for _, line := range b.PrintErr {
		fmt.Fprintf(&s, "printf '%%s\\n' %s >&2\n", quote(line))
	}
	for _, name := range b.PrintEnv {
		fmt.Fprintf(&s, "printf '%%s\\n' \"%s=${%s-}\"\n", name, name)
	}
	if b.PrintDir {
		s.WriteString("printf 'dir=%s\\n' \"$(pwd)\"\n")
	}
	if b.PrintArgs {
		s.WriteString("for a in \"$@\"; do printf 'arg=%s\\n' \"$a\"; done\n")
	}
	if b.PrintLong > 0 {
		fmt.Fprintf(&s, "head -c %d /dev/zero | tr '\\0' x; echo\n", b.PrintLong)
	}
	if b.PrintTail != "" {
		fmt.Fprintf(&s, "printf '%%s' %s\n", quote(b.PrintTail))
	}
	switch {
	case b.ExitAfter <= 0:
		// The trap can interrupt "wait", but not a sleep in the foreground.
		s.WriteString("while :; do sleep 3600 & wait $!; done\n")
	case b.ExitAfter > time.Millisecond:
		fmt.Fprintf(&s, "sleep %s & wait $!\nexit %d\n", seconds(b.ExitAfter), b.ExitCode)
	default:
		fmt.Fprintf(&s, "exit %d\n", b.ExitCode)
	}
	return []string{"/bin/sh", "-c", s.String(), "sh"}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Output returns the output of b in a container (or a command of Exec) made from spec: whole lines
// without newlines, and PrintTail as the last line of stdout. It is for harnesses of backends that
// run no commands.
func (b Behaviour) Output(spec runtime.ContainerSpec) (stdout, stderr []string) {
	stdout = append(stdout, b.Print...)
	for _, name := range b.PrintEnv {
		value := ""
		for _, e := range spec.Env {
			if e.Name == name {
				value = e.Value
			}
		}
		stdout = append(stdout, name+"="+value)
	}
	if b.PrintDir {
		stdout = append(stdout, "dir="+spec.WorkingDir)
	}
	if b.PrintArgs {
		for _, arg := range spec.Args {
			stdout = append(stdout, "arg="+arg)
		}
	}
	if b.PrintLong > 0 {
		stdout = append(stdout, strings.Repeat("x", b.PrintLong))
	}
	if b.PrintTail != "" {
		stdout = append(stdout, b.PrintTail)
	}
	return stdout, b.PrintErr
}
