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
	// Never as Script.TermAfter makes a container ignore SIGTERM. Never as Script.ReadyAfter makes
	// a container never ready.
	Never = time.Duration(math.MaxInt64)
)

// Script is the behaviour of a container instance from its start. The zero value is a well-behaved
// server: the container runs until a stop, and exits with code 0 at SIGTERM.
type Script struct {
	// StartErr is the error of StartContainer. The container is exited afterwards, with
	// runtime.ReasonStartError. As with containerd, its log file exists and is empty.
	StartErr error

	// ExitAfter is the time from the start to the container's own exit. 0: never.
	ExitAfter time.Duration
	ExitCode  int32
	// Reason of the container's own exit. Defaults to Completed for code 0, Error otherwise.
	Reason string
	// Message is the termination message of any exit. Cut at 4096 bytes.
	Message string

	// TermAfter is the time from SIGTERM to the exit with TermCode. Never: the container ignores
	// SIGTERM, and only SIGKILL (code 137) or the container's own exit ends the container.
	TermAfter time.Duration
	TermCode  int32

	// Log has the lines printed to stdout at the start. Log is not copied.
	Log []string
	// Output returns the lines printed after Log, computed from the container's spec. Output is
	// called with no lock held and must not write to spec.
	Output func(spec runtime.ContainerSpec) []Line

	// Memory is the memory usage while running, in bytes.
	Memory int64
	// CPU is the cpu usage while running, in thousandths of a core.
	CPU int64

	// ReadyAfter is the time from the start until World.Ready and the default Exec report
	// readiness. Never: the container is never ready.
	ReadyAfter time.Duration
	// Exec runs a command in the container. Exec is called with no lock held. ctx ends with the ctx
	// of Runtime.Exec or at the container's exit. Defaults to exit code 0 if ready, else 1.
	Exec func(ctx context.Context, spec runtime.ContainerSpec, cmd []string) ExecResult
}

// Line is one line of output, without its newline.
type Line struct {
	Stderr bool
	Text   string
}

// ExecResult is the result of a command.
type ExecResult struct {
	Stdout, Stderr []byte
	ExitCode       int
	Err            error // the command could not be run; the other fields are then ignored
}

// Exit returns a script of a container that exits with code after d.
func Exit(d time.Duration, code int32) Script {
	return Script{ExitAfter: max(d, AtOnce), ExitCode: code}
}

// OOM returns a script of a container that the kernel kills for its memory usage after d.
func OOM(d time.Duration) Script {
	return Script{ExitAfter: max(d, AtOnce), ExitCode: 137, Reason: runtime.ReasonOOMKilled}
}

// Script sets the scripts of the containers that the target selects, from their next start on. The
// first script is for RestartCount 0, the second for 1, and so on. The last script is also for all
// later starts. If several calls of Script select a container, the latest applies. Target.Op is
// ignored. A call without scripts removes the scripts of all targets.
func (w *World) Script(target Target, scripts ...Script) {
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
	target.Op = ""
	w.mu.scripts = append(w.mu.scripts, scripted{target, kept})
}

// scripted is a call of World.Script. Containers share the scripts, which are never written.
type scripted struct {
	on      Target
	scripts []*Script
}

// scriptFor returns the script of a start.
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
