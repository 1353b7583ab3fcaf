// SPDX-License-Identifier: Apache-2.0

// Package record is what the process backend and its shims keep on disk about
// one sandbox or container: small JSON files that appear whole or not at all,
// and the lock that says whether a shim is, or may be coming up, behind a
// container.
//
// It imports the standard library and x/sys only, so that a shim stays small.
package record
