// SPDX-License-Identifier: Apache-2.0

// Package podspec holds the test that writes docs/podspec.md: what each backend makes of each field of a pod, in the
// reference agent. It has nothing to import.
//
//	make docs
//
// A field that is new in the API, or one that a backend begins to honour or to refuse, fails the test until the table says
// so: add or change its row in fields_test.go or podfields_test.go, and make docs.
package podspec
