// SPDX-License-Identifier: Apache-2.0

// Package lifecycle defines the stages of a value that runs once, and counts the calls that its end waits for.
package lifecycle

// Stage says whether Run of a value was not called yet, runs, or has returned. A stage never moves
// back.
type Stage uint8

// The stages, in their order.
const (
	New Stage = iota
	Running
	Stopped
)
