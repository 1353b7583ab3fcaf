// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

const (
	// AtOnce as Script.ExitAfter makes a container exit right after its start.
	AtOnce = time.Nanosecond
	// Never as Script.TermAfter makes a container ignore SIGTERM, as
	// Script.ReadyAfter makes it never ready.
	Never = time.Duration(math.MaxInt64)
)

// Script is what one instance of a container does from its start on. The zero
// value is a good server: it runs until it is stopped, and exits with code 0 as
// soon as it gets SIGTERM.
type Script struct {
	// StartErr makes StartContainer fail with it; the container stays created.
	StartErr error

	// ExitAfter is how long after its start it exits by itself. 0: never.
	ExitAfter time.Duration
	ExitCode  int32
	// Reason of that exit. Defaults to Completed for code 0, Error otherwise.
	Reason string
	// Message is the termination message, whatever the exit. Cut at 4096 bytes.
	Message string

	// TermAfter is how long after SIGTERM it exits, with TermCode. Never: it
	// ignores SIGTERM, and only SIGKILL (code 137) or its own exit ends it.
	TermAfter time.Duration
	TermCode  int32

	// Log is what it prints to stdout at its start, a line each. Not copied.
	Log []string
	// Output is what it prints after that, made from what it was created with.
	// It is called with no lock held and must not write to spec.
	Output func(spec runtime.ContainerSpec) []Line

	// Memory is how much of it it uses while it runs, in bytes.
	Memory int64
	// CPU is how much of one core it uses while it runs, in thousandths.
	CPU int64

	// ReadyAfter is how long after its start World.Ready and the default Exec
	// call it ready. Never: they never do.
	ReadyAfter time.Duration
	// Exec runs a command in the container. It is called with no lock held; ctx
	// ends when Exec's ctx ends or the container exits. Defaults to exit code 0
	// if ready, else 1.
	Exec func(ctx context.Context, spec runtime.ContainerSpec, cmd []string) ExecResult
}

// Line is one line of output, without its newline.
type Line struct {
	Stderr bool
	Text   string
}

// ExecResult is what a command left behind.
type ExecResult struct {
	Stdout, Stderr []byte
	ExitCode       int
	Err            error // the command could not be run; nothing else counts then
}

// Exit is a script of a container that exits with code after d.
func Exit(d time.Duration, code int32) Script {
	return Script{ExitAfter: max(d, AtOnce), ExitCode: code}
}

// OOM is a script of a container that the kernel kills for its memory after d.
func OOM(d time.Duration) Script {
	return Script{ExitAfter: max(d, AtOnce), ExitCode: 137, Reason: runtime.ReasonOOMKilled}
}

// Script says how the containers that on picks behave from their next start on:
// the first script is for the start with RestartCount 0, the next for 1, and so
// on; the last one also for all that follow. What was said last wins. on.Op is
// not looked at. No scripts: takes back everything said so far.
func (w *World) Script(on Target, scripts ...Script) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(scripts) == 0 {
		w.mu.scripts = nil
		return
	}
	kept := make([]*Script, len(scripts))
	for i := range scripts {
		kept[i] = &scripts[i]
	}
	on.Op = ""
	w.mu.scripts = append(w.mu.scripts, scripted{on, kept})
}

// scripted is one call of World.Script. The scripts are shared by every
// container they are for, and never written.
type scripted struct {
	on      Target
	scripts []*Script
}

// scriptFor finds the script of one start.
func (w *World) scriptFor(call Call, pod *v1.Pod, spec runtime.ContainerSpec) *Script {
	if s := w.scriptSaid(call, spec.RestartCount); s != nil {
		return s
	}
	if w.opts.Behave == nil {
		return w.server
	}
	s := w.opts.Behave(pod, spec)
	return &s
}

func (w *World) scriptSaid(call Call, restart int32) *Script {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.mu.scripts) - 1; i >= 0; i-- {
		if s := &w.mu.scripts[i]; s.on.matches(call) {
			return s.scripts[min(max(int(restart), 0), len(s.scripts)-1)]
		}
	}
	return nil
}
