// SPDX-License-Identifier: Apache-2.0

//go:build !race

package casetest

// Raced reports whether the race detector is on.
const Raced = false
