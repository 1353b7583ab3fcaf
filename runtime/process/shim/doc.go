// SPDX-License-Identifier: Apache-2.0

// Package shim is the small process between an agent and one container: it
// outlives the agent, is the parent of the container's processes, writes their
// output to the log and their exit code to disk.
//
// Programs that use package process need not know it: process.Main calls Main.
// A program with a large binary can instead build a tiny one and name it in
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
//  1. It is started by the agent in a session of its own, in the container's
//     folder, with the container's lock held by an open file it inherits.
//  2. It becomes the subreaper of its descendants (what escapes by double fork
//     becomes its child), records itself in pid.json, and starts the container's
//     main process in a session of its own, to be killed by the kernel if the
//     shim dies. It records that too, and tells the agent.
//  3. It copies stdout and stderr to the log, and rotates that. SIGTERM to the
//     shim is passed on as the stop signal to the container's process group;
//     SIGUSR1 kills everything.
//  4. When the main process has ended it kills every process that is left, reads
//     the termination message, writes exit.json, and exits.
//
// One goroutine, locked to its thread, does all of it but the copying: the
// kernel's "kill me when my parent dies" means the parent thread. A shim in a
// 13 MB agent has about 1.8 MB of private memory.
package shim
