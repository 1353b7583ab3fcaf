// SPDX-License-Identifier: Apache-2.0

// Package e2e is a module of its own for what only end-to-end tests need, so that
// no user of keelson downloads it. It pins containerd 2 as a tool;
// containerd.sh builds it, and the tests of the main module run on it:
//
//	dir=$(e2e/containerd.sh)
//	KEELSON_CONTAINERD_DIR=$dir KEELSON_REQUIRE_CONTAINERD=1 go test ./internal/containerdtest
package e2e
