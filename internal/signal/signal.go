// SPDX-License-Identifier: Apache-2.0

// Package signal notifies one waiting goroutine without blocking the notifying goroutines.
package signal

// Signal is a notice. Several notices before the reader receives are merged into one. The reader receives from the
// channel.
type Signal chan struct{}

// New returns a Signal without a notice.
func New() Signal { return make(Signal, 1) }

// Notify gives notice. Notify does not block.
func (s Signal) Notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}
