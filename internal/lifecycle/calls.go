// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "sync"

// Calls counts calls in progress. The zero value is ready for use.
type Calls struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// Begin reports whether a call may begin. The caller then calls End once.
func (c *Calls) Begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Add(1)
	}
	return !c.closed
}

// End ends a call.
func (c *Calls) End() { c.running.Done() }

// Close waits for the calls in progress, and prevents further calls.
func (c *Calls) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}
