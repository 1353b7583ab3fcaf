// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

// releaseProgram has no effect on this system.
func releaseProgram() {}
