// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/runtime"
)

// AtOnce as Behaviour.ExitAfter makes a container exit as soon as it has
// printed what it has to.
const AtOnce = time.Nanosecond

// Behaviour says what the main process of a container (or a command of Exec)
// does, as data: first it prints, then it runs, then it exits. The zero value
// prints nothing, runs until it is stopped and exits with code 0 on SIGTERM.
type Behaviour struct {
	// CannotStart: there is no such program. Nothing else matters then.
	CannotStart bool

	// Printed in this order, one line each.
	Print    []string // to stdout
	PrintErr []string // to stderr
	PrintEnv []string // "NAME=value" of these variables, to stdout; unset: "NAME="
	PrintDir bool     // "dir=" and the working directory, to stdout
	// PrintArgs: "arg=" and one argument, for each of ContainerSpec.Args, to stdout.
	PrintArgs bool
	// PrintLong prints one line of so many 'x' to stdout. 0: none.
	PrintLong int
	// PrintTail is printed last, to stdout, without a newline after it.
	PrintTail string

	// ExitAfter is how long it runs before it exits by itself. 0: never.
	ExitAfter time.Duration
	ExitCode  int32

	// IgnoreTerm: SIGTERM does nothing. Otherwise it exits with TermCode,
	// TermAfter later.
	IgnoreTerm bool
	TermAfter  time.Duration
	TermCode   int32

	// Spawn also starts a child process that ignores SIGTERM and lives until it is
	// killed. Ten times a second it prints "beat" to stdout. (Output leaves that
	// out: a backend without processes has no children to forget.)
	Spawn bool
}

// Shell translates b to a command for a POSIX shell. What follows it as
// arguments is what PrintArgs prints.
func Shell(b Behaviour) []string {
	if b.CannotStart {
		return []string{"/runtimetest/no/such/program"}
	}
	var s strings.Builder
	// As process 1 of a container a shell has no default action for SIGTERM, so
	// there is always a trap. What it runs meanwhile ignores further ones.
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
		// "wait" can be interrupted by the trap, a sleep in the foreground cannot.
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

// Output is what b prints in a container (or a command of Exec beside one) made
// from spec: whole lines, without their newlines, and PrintTail as the last line
// of stdout. For harnesses whose backend runs no commands.
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
