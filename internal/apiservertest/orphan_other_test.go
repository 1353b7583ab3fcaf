// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package apiservertest

// helper is Linux's.
func helper() bool { return false }
