// SPDX-License-Identifier: Apache-2.0

// Package crashtest kills real agents with SIGKILL at system calls, and looks from outside at what they leave.
//
// It has tests only. The victim is the test binary itself, run again under ptrace: a volumemanager.Manager with all
// real plugins, real mounts and a real folder. A seccomp filter of its own stops it at each system call that counts, so
// that the others run at full speed; the parent kills it at the entry or the exit of one of them, drawn by chance. The
// parent is the cluster (it says which pods there are, and in which version), the containers (it writes to volumes and
// holds on to what it saw), the CSI driver, which survives agents, and the judge, who reads the mount table and the
// disk, and never asks a Manager.
//
// Each victim goes through two phases: the reconstruction of what the last one left, and then a step, which mounts
// pods, refreshes all of them, or unmounts some. It may be killed in either, so that reconstructions are killed in turn.
// Now and then one is let through to the end, with all pods gone: nothing at all may be left then.
//
//	go test ./volumemanager/internal/crashtest -v -kills 1000 -seed 1
//
// As root, all of it happens in a mount namespace of its own. Without mounts the victims have none, and what needs them
// is left out. It needs Linux on amd64 or arm64, and ptrace; else the test is skipped.
package crashtest
