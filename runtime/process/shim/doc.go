// SPDX-License-Identifier: Apache-2.0

// Package shim is the small process between an agent and one container. The shim outlives the
// agent, is the parent of the container's processes, writes their output to the log, and writes the
// exit code to disk.
//
// Programs that use package process need no import of package shim, because process.Main calls
// Main. A program with a large binary can build a small shim program and name the program in
// process.Options.Shim:
//
//	package main
//
//	import "github.com/keelson-dev/keelson/runtime/process/shim"
//
//	func main() { shim.Main() }
//
// # What a shim does
//
//  1. The agent starts the shim in a new session and in the container's folder. The shim
//     inherits an open file that holds the container's lock.
//  2. The shim becomes the subreaper of its descendants, so that a process that escapes by
//     a double fork becomes the shim's child. The shim records itself in pid.json, and
//     starts the container's main process in a new session. The kernel kills the main
//     process if the shim dies. The shim records the main process, keeps a copy of the
//     records in sealed memory for agents that find damaged records, and reports the
//     start to the agent.
//  3. The shim copies stdout and stderr to the log, and rotates the log. For SIGUSR2 the
//     shim sends the stop signal to the container's process group. For SIGUSR1 the shim
//     kills every process of the container.
//  4. After the end of the main process, the shim kills the remaining processes, reads the
//     termination message, writes exit.json, and exits. The shim kills only its unreaped
//     children, whose PIDs cannot be reused.
//
// One goroutine, locked to its thread, does all work except the copying, because PR_SET_PDEATHSIG
// refers to the parent thread.
//
// # Starts without a program of Go
//
// On Linux on amd64, an agent does steps 1 and 2 itself: the shim's process begins as the
// program of its naps, which does a prepared list of system calls (packages stage and tiny). It forks the
// main process, which prepares its walls and waits; the agent writes the records and lets the main
// process execute its program. The shim becomes a program of Go at the first output, signal, or end of
// a child. Output stays in the pipe until then, and the records are those of other starts. If the agent
// ends during the start, or the program cannot be executed, the shim finds no sealed statement, or an
// error in another memory file, and records that. Where memory cannot be executed
// (vm.memfd_noexec), on other systems, and for the first container of a program in process.Options.Shim, a program of Go
// starts.
//
// # Naps
//
// After a second without output, the shim replaces its program by one of a few KiB (package doze),
// which waits for output, for the end of a child, or for SIGUSR1 and SIGUSR2, and then executes the
// shim's program again. The process stays the same, with its children, the lock, the statement, and
// the pipes. The rest of the state (half a line, the end of the output) is in sealed memory. A shim
// that is woken within 30 s is awake for twice as long before its next nap, up to a minute, so that a
// container with regular output does not start programs all the time. The program is that of the
// shim's start, even if its file was removed; a file that was overwritten has to be a shim, too.
//
// A shim that dozes passes the stop signal on, and it records the end of its container without the
// program of Go, by prepared system calls: it kills the process group, reaps the main process, and writes
// and syncs the file "end". The shim wakes up instead if there is output or an incomplete line, if other processes
// of the container are left 10 ms later, if a command of Exec was started, if the termination message
// may be the end of the log, or if a call fails. This needs Linux 6.9, whose pidfds stand for process groups.
//
// Naps need Linux on amd64, and memory that may be executed (vm.memfd_noexec). Elsewhere
// the shim stays awake.
//
// If the process was started as a shim, the initialization of package shim runs the shim, before
// packages that package shim does not import are initialized. The shim of an agent of 63 MB has 2.2
// MiB of private memory while it is awake, and starts and wakes up in 4 ms; with all packages it
// would be 5.1 MiB and 12 ms.
package shim
