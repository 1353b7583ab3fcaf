// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process_test

// reusePIDs does nothing: PIDs cannot be chosen here.
func reusePIDs() {}

// churn does nothing: its test is for Linux.
func churn() {}

// attackFromInside is for Linux.
func attackFromInside() {}

// climb is for Linux.
func climb() {}

// useNetwork is for Linux.
func useNetwork() {}
