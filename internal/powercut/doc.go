// SPDX-License-Identifier: Apache-2.0

// Package powercut simulates the state of a disk after a power cut. It has two parts.
//
// Image converts a log of file and folder operations into a tree that a disk could hold after a power cut following the
// last operation. Synced changes are present. Of the unsynced changes, the newest or any others can be missing. An
// unsynced file can be empty, truncated or full of zeros.
//
// The tests trace the system calls of a program and all its children by ptrace, as root on Linux. They cut the log at
// any place, restart the program on the image under another boot ID, and check its state from outside.
//
// The same tracer makes calls on files below the agent's root fail with ENOSPC, EIO or EROFS, at any place of the
// agent's life: TestDiskFaults. The test also checks from outside: when the fault is over, and again under the next
// agent, each configured pod runs once, and nothing is left of other pods.
//
// dm-log-writes would simulate the same below the file system, but needs a kernel with device mapper. The model is
// stricter than ext4, xfs and btrfs, which keep the order of changes to folders.
package powercut
