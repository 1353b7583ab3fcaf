// SPDX-License-Identifier: Apache-2.0

// Package soak runs the node agent on a real containerd for minutes. Meanwhile it kills, stops and
// restarts the agent, containerd, and the shims and processes of containers at random. It checks
// that the pods are not affected more than necessary:
//
//	make soak-containerd                             # 10 minutes, as root, on Linux
//	KEELSON_SOAK=1 go test ./internal/soak -run Soak -soak.for 3m -soak.seed 7
//
// # Sources of truth
//
// The tests trust neither the agent nor containerd. Each container runs the program of package
// witness. The program writes a [Record] of its start and of its end, holds a lock while running,
// and checks its volumes continuously. The tests also sample the agent's /pods, the CRI's lists and
// /proc. The ledger in the tests checks these rules:
//
//  1. Never two instances of a container: a second instance finds the lock taken, even by an
//     earlier pod of the same name.
//  2. No pod is lost or resurrected: when faults stop, every wanted pod runs. Once an unwanted pod
//     was seen to be gone, the pod starts nothing.
//  3. The latest spec wins: after a generation has started, no earlier generation starts, and in
//     the end the last generation runs.
//  4. Terminations are final: a Succeeded or Failed pod keeps its phase and starts no container,
//     and a container of a pod with restart policy Never starts once.
//  5. Every exit is reported once, always with the exit code of the program. Restart counts never
//     fall. At every pause the restart count equals the number of starts, and the last exit is the
//     newest.
//  6. Volumes outlive their containers: written files are present after a restart and until the
//     program ends, files of an earlier generation are not, and a ConfigMap is always consistent.
//  7. Nothing is leaked at the end: containers, sandboxes, shims, processes,
//     mounts, cgroups, addresses, folders.
//
// # Excused effects
//
// No CRI client can repair some effects of killing containerd and runc. The tests identify such
// effects as narrowly as possible, count them, and report the counts at the end of a run:
//
//   - An exit code that became 255 or 137 while containerd or the container's shim was dead.
//   - A start in progress when the agent was killed, which containerd completes without a client.
//     The start may come after its pod is gone.
//   - A container in state unknown after a crash of containerd 1.6: the agent reports the state for
//     a moment, as a kubelet does, and then the real state.
//   - A process that lives for a moment after containerd has reported its exit with 255: when a
//     shim is killed, containerd 1.6 reports the exit too early.
//   - The cgroup of a container whose creation was interrupted: runc dies after making the cgroup
//     and before recording the container. The shim, sandbox process and network namespace of a
//     sandbox in creation when containerd was killed: containerd reports the sandbox as removed,
//     although processes are left. An empty shim considered dead by containerd.
//
// For instances killed before their first record, only the number is known. The last exit of a
// sidecar is not checked if its record was removed with its sandbox and the agent has been replaced
// since; the exit must have been reported before.
//
// # Kills
//
// TestKills (make kills) checks another property: the resources left on the node by an agent that
// is killed with SIGKILL while creating or removing pods. Each round writes three manifests, kills
// the agent at a random instant, removes the manifests and restarts the agent. Nothing is excused.
// On a busy machine -soak.patience extends the wait; the report still counts the rounds longer than
// 10 s.
//
// # Seeds
//
// The seed determines the manifests, edits and faults, with their order and duration. The state of
// the machine at each instant is not reproducible, so a failed seed makes the same attempt, but not
// always the same history. Use the journal printed with a failure.
package soak
