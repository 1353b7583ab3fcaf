// SPDX-License-Identifier: Apache-2.0

// Package crio is a separate module that pins CRI-O as a tool, so that users of keelson do not
// download it. ../crio.sh builds CRI-O for the tests of the main module:
//
//	KEELSON_CRIO_DIR=$(e2e/crio.sh) go test -run CRIO ./runtime/cri
//
// CRI-O requires a version of go-criu that the module proxy does not serve everywhere. The module
// requires a later version.
package crio
