// SPDX-License-Identifier: Apache-2.0

// Package soak runs the node agent on a real containerd for minutes while both,
// and the processes between containerd and its containers, are killed, stopped
// and started again at random, and checks that the pods never notice more than
// they must:
//
//	make soak-containerd                             # 10 minutes, as root, on Linux
//	KEELSON_SOAK=1 go test ./internal/soak -run Soak -soak.for 3m -soak.seed 7
//
// # Who says what is true
//
// Neither the agent nor containerd is believed. Each container runs the program
// of package witness beside this one, which writes a [Record] of its start and
// of its end, holds a lock for as long as it lives, and looks at its volumes all
// the time. Beside that stand samples of the agent's /pods, of the CRI's lists
// and of /proc. What must hold of all of them is in the tests' ledger.
//
//  1. Never two instances of a container: a second one finds the lock taken, be
//     it of the same pod or of an earlier one of the same name.
//  2. No pod is lost or resurrected: when faults stop, what is wanted runs; what
//     is not wanted was seen to be gone, and starts nothing after that.
//  3. The latest spec wins: after a generation has started nothing of an earlier
//     one does, and in the end the last one runs.
//  4. Terminations are irrevocable: a pod that was Succeeded or Failed stays so
//     and starts nothing; a container of a pod that is never restarted starts
//     once.
//  5. Every exit is reported once: with the code that the program ended with,
//     always the same; restart counts never fall, and at every pause they are
//     the number of starts, and the last exit is the one that was last.
//  6. Volumes outlive their containers: what was written is there after a restart
//     and until the program ends, nothing of an earlier generation is, and a
//     ConfigMap is always whole.
//  7. Nothing is leaked at the end: containers, sandboxes, shims, processes,
//     mounts, cgroups, addresses, folders.
//
// # What is excused
//
// What containerd and runc do when they are killed nobody who speaks CRI can mend.
// It is told apart as narrowly as it can be, counted, and said at the end of a run:
//
//   - An exit code that became 255 or 137 while containerd was away, or with the
//     shim that waited for it.
//   - A start that was under way when the agent was killed, and that containerd
//     finishes for nobody; it may come after its pod is gone.
//   - A container whose state containerd 1.6 calls unknown after a crash: the
//     agent says so for a moment, as a kubelet does, and then the truth.
//   - A process that lives for a moment after containerd has said that it exited
//     with 255: when a shim is killed, containerd 1.6 says so before it is true.
//   - The cgroup of a container whose creation was cut short: runc dies between
//     making it and noting that there is a container. And the shim, with the
//     sandbox process and the network namespace, of a sandbox that was being made
//     when containerd was killed: it says that it has removed such a sandbox, and
//     has not. And an empty shim that containerd took for dead.
//
// Of instances that were killed before they could say anything only the number is
// known. And the last end of a sidecar is not asked for where its record went with
// its sandbox and the agent is another one since; it must have been told before.
//
// # Seeds
//
// The seed decides which manifests, edits and faults there are, in which order
// and how long they last. What runs at that moment is up to the machine, so a
// seed that failed makes the same attempt, not always the same history: the
// journal that a failure prints is the witness.
package soak
