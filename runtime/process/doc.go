// SPDX-License-Identifier: Apache-2.0

// Package process is a runtime.Runtime that runs each container as an ordinary
// OS process: no container engine, no image, no root.
//
//	func main() {
//		process.Main() // first: this program is also its containers' shim
//
//		backend, err := process.New(process.Options{Root: "/var/lib/agent/process"})
//		if err != nil {
//			log.Fatal(err)
//		}
//		manager, err := runtime.New(runtime.Options{Runtime: backend, Generator: generator})
//		…
//	}
//
// # The caller's duties
//
//  1. Call Main first in main, and in TestMain of tests that start containers;
//     or build a program whose main is shim.Main() and name it in Options.Shim.
//     Otherwise StartContainer fails with ErrNoShim.
//  2. Give Root to one agent at a time. Starts are safe with two, plans are not.
//  3. Let shims live when the agent goes: under systemd KillMode=process.
//  4. An agent that is process 1 reaps orphans it does not know, as every process
//     1 must. Its own shims are reaped by whichever call first sees them exited.
//
// No goroutine outlives a call; Watch and Exec run in their callers' time. There
// is no memory but that of which broken records were logged.
//
// # What a container gets
//
//   - A command: ContainerSpec.Command and Args. The image is not looked at, so a
//     container without a command is refused.
//   - A working folder of its own, deleted with its record. It is the working
//     directory and HOME, and KEELSON_ROOT names it.
//   - Mounts as symbolic links: a volume mounted at /etc/app appears at
//     $KEELSON_ROOT/etc/app. There is no mount namespace: /etc/app itself is the
//     host's. A working directory or command at or below a mount is translated;
//     others are the host's. A relative working directory is in the working folder.
//   - An environment of the spec's variables, PATH (the agent's), HOSTNAME, HOME,
//     KEELSON_ROOT, all of which the spec may override, and KEELSON_CONTAINER_ID,
//     which it may not: it marks the processes of a container. Nothing else of
//     the agent's environment.
//   - Its termination message read from $KEELSON_ROOT + terminationMessagePath;
//     never through a link that leads out of the working folder.
//   - /dev/null as stdin, and its output in the log, in the CRI's format. Its shim
//     rotates the log, so that one instance's takes no more than about
//     Options.MaxLogSize × MaxLogFiles; package logs reads all of it. What a full
//     disk cannot take is lost, and the container runs on.
//   - The host's network, processes, users and files. Fields that ask for
//     anything else are refused, see CheckPod, unless Options.Lenient.
//
// All processes of a container run as the agent's user. There is no isolation: a
// container can do whatever that user can, to the state folder as well.
//
// # State
//
// Folders are 0700 and files 0600, since the environment may hold secrets. All
// records are JSON, written whole or not at all.
//
//	<root>/<uid>/sandbox-<attempt>-<salt>/
//	    sandbox.json                 pod, host network, boot ID
//	    stopped.json                 there: the sandbox was stopped
//	    <name>-<restart>-<salt>/
//	        spec.json                what to run and to report
//	        lock                     locked: a shim lives or is coming up
//	        pid.json                 boot ID; PID and start time of shim and main process
//	        exit.json                exit code, reason, message, time
//	        exec                     there: Exec was used
//	        shim.log                 stderr of the shim: empty, or what was wrong with the log
//	        work/                    the working folder
//
// IDs hold the same as folder names, so that a broken record cannot hide what it
// was about. Folders are made under a name that begins with a dot and renamed
// into place; to be removed they are renamed away first.
//
// # Why a crash at any moment is safe
//
//	StartContainer:  lock, check, fork shim (inherits the lock), wait for its word
//	shim:            pid.json{shim}, exec, pid.json{shim, main}, "started",
//	                 … exit, kill the rest, exit.json, end (unlocks)
//
// The lock belongs to the open file, of which agent and shim have duplicates. It
// is free exactly when neither lives: nobody can start the container any more.
// So, whoever looks, in the order exit.json, lock, pid.json (function judge):
//
//	exit.json                             exited
//	locked, pid.json with main            running
//	locked, not yet                       a start under way: it settles in a moment
//	free, no pid.json                     created; no start under way can change that
//	free, pid.json                        the shim died: what is left of the container
//	                                      is killed, exit.json written: 137
//	pid.json, but of an earlier boot      exited, 137
//
// An agent that dies before the fork leaves a created container; after it, the
// shim goes on, and the next agent finds it running or with its true exit code.
// A shim that is killed takes the main process with it (PR_SET_PDEATHSIG); what
// else is left is found by its session and by KEELSON_CONTAINER_ID in its
// environment. A PID counts only together with its start time and boot.
// A broken record is logged once and never read as "created".
//
// exit.json is synced to disk, and its space set aside at the start, so that
// neither a power cut nor a full disk loses an exit code. The other records need
// not survive a power cut: nothing runs after it.
//
// # Limits
//
//   - Linux 5.3 (pidfd). On macOS it is best effort: exits are found by polling,
//     and what leaves the process group by a double fork is not.
//   - No images, cgroups, limits, users, namespaces; no reason OOMKilled: exit
//     code 137 is all that is seen of it.
//   - A container that runs a set-user-ID program of another user may leave it
//     behind; the termination message then says so.
//   - A process that clears its environment, leaves the session, and whose shim is
//     killed with SIGKILL, is not found.
//   - If the state folder is deleted, what runs is forgotten.
//
// # Differences
//
// From the kubelet with a CRI runtime: SIGTERM goes to the process group, not
// only to the main process. A created container that is stopped becomes exited
// (137), and stays created when only its sandbox is stopped. Exec's processes end
// with the container; its output is waited for half a second longer than the
// command when something holds it open. Logs are rotated by who writes them, before
// they are too big and not after up to 10 s, and not compressed; a flood of more
// than one rotation a second makes their stamps run ahead of the clock.
//
// From the contract: folders carry a salt; hostPID, hostIPC and
// shareProcessNamespace are let pass, since the host's is what containers see;
// allowPrivilegeEscalation: false is honoured (PR_SET_NO_NEW_PRIVS); dropped
// capabilities pass unless the agent is root; readOnly passes for mounts of
// configMap, secret, projected and downwardAPI volumes only.
package process
