// SPDX-License-Identifier: Apache-2.0

//go:build !linux || noseccomp

package stage

// Built tells that this build has no namespaces and no filters of system calls. The edge binary
// leaves them out for their size.
const Built = false
