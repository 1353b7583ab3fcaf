// SPDX-License-Identifier: Apache-2.0

// Package e2e is a separate module with the requirements of end-to-end tests, so that users of
// keelson do not download them. The module pins containerd 2 as a tool. containerd.sh builds
// containerd for the tests of the main module:
//
//	dir=$(e2e/containerd.sh)
//	KEELSON_CONTAINERD_DIR=$dir KEELSON_REQUIRE_CONTAINERD=1 go test ./internal/containerdtest
package e2e
