// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package nodeserver

// limitUnsent does nothing: this system has no limit for unsent bytes.
func limitUnsent(uintptr, int) {}
