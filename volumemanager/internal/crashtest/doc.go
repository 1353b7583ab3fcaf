// SPDX-License-Identifier: Apache-2.0

// Package crashtest kills real agents with SIGKILL at system calls, and checks their leftovers from
// outside.
//
// The package has tests only. The victim is the test binary itself, run again under ptrace: a
// volumemanager.Manager with all real plugins, real mounts and a real folder. A seccomp filter
// stops the victim at the relevant system calls only, so all other calls run at full speed. The
// parent kills the victim at the entry or exit of a randomly chosen call.
//
// The parent plays four roles. As the cluster, the parent defines the pods and their versions. As
// the containers, the parent writes to volumes and keeps files open. As the CSI driver, the parent
// survives agents. As the judge, the parent reads the mount table and the disk, and never asks a
// Manager.
//
// Each victim runs two phases. The first phase reconstructs the volumes of the previous victim. The
// second phase is a step: mount pods, refresh all pods, or unmount some pods. The kill may hit
// either phase, so interrupted reconstructions are tested too. Some victims run to the end, with
// all pods gone; then no file or mount may be left.
//
//	go test ./volumemanager/internal/crashtest -v -kills 1000 -seed 1
//
// As root, the test runs in a mount namespace of its own. If the process cannot mount, the cases
// with mounts are skipped. The test needs Linux on amd64 or arm64, and ptrace; otherwise the test
// is skipped.
package crashtest
