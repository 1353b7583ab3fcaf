// SPDX-License-Identifier: Apache-2.0

// The compiler accepts functions without a body, as those of fork_linux.go, only in a package with
// assembly.
