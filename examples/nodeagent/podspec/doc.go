// SPDX-License-Identifier: Apache-2.0

// Package podspec contains the test that generates docs/podspec.md: for each field of a pod, the
// behaviour of the reference agent with each backend. The package has no code to import.
//
//	make docs
//
// The test fails if the API has a new field or a backend's behaviour changes. In this case, add or
// change the row in fields_test.go or podfields_test.go, and run make docs.
package podspec
