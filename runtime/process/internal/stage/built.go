// SPDX-License-Identifier: Apache-2.0

//go:build linux && !noseccomp

package stage

// Built tells that this build has namespaces and filters of system calls.
const Built = true
