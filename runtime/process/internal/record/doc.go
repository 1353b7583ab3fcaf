// SPDX-License-Identifier: Apache-2.0

// Package record has the files of a sandbox and of a container that the process backend and its
// shims share: small JSON files that are replaced atomically, and the lock of a container. The lock
// is held while a shim runs or starts.
//
// The package imports only the standard library and x/sys, so that a shim stays small.
package record
