// SPDX-License-Identifier: Apache-2.0

//go:build linux && !amd64 && !arm64 && !arm

package walls

// Without numbers of system calls there are no filters.
const architecture, callNumbers = 0, ""
