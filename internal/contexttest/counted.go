// SPDX-License-Identifier: Apache-2.0

// Package contexttest finds code that derives contexts from a long-lived context, or registers
// functions, and does not release them.
package contexttest

import (
	"context"
	"sync"
	"sync/atomic"
)

// Counted is a context that counts derived contexts and registered functions. A derived context
// without a call of its cancel function stays in the count.
type Counted struct {
	context.Context
	waiting atomic.Int64
}

// New returns a Counted with the values and the end of parent.
func New(parent context.Context) *Counted { return &Counted{Context: parent} }

// Value returns the values of the parent. For the key of package context, a pointer to an int, the
// result is nil: otherwise derived contexts would register at the parent, and would not be counted.
func (c *Counted) Value(key any) any {
	if _, hidden := key.(*int); hidden {
		return nil
	}
	return c.Context.Value(key)
}

// AfterFunc is called by package context for each derived context and by context.AfterFunc.
func (c *Counted) AfterFunc(f func()) (stop func() bool) {
	c.waiting.Add(1)
	inner := context.AfterFunc(c.Context, f)
	return sync.OnceValue(func() bool {
		c.waiting.Add(-1)
		return inner()
	})
}

// Waiting returns the number of derived contexts and functions that still wait for the end of c.
func (c *Counted) Waiting() int { return int(c.waiting.Load()) }
