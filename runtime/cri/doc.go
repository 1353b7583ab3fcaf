// SPDX-License-Identifier: Apache-2.0

// Package cri is a runtime.Runtime over any CRI v1 runtime on a unix socket:
// containerd from 1.6 on and CRI-O.
package cri
