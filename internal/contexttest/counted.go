// SPDX-License-Identifier: Apache-2.0

// Package contexttest finds code that leaves something behind at a context that lives long.
package contexttest

import (
	"context"
	"sync"
	"sync/atomic"
)

// Counted is a context that counts its waiting contexts and functions. A call that derives a
// context and does not cancel it leaves a count behind.
type Counted struct {
	context.Context
	waiting atomic.Int64
}

// New returns a Counted with the values and the end of parent.
func New(parent context.Context) *Counted { return &Counted{Context: parent} }

// Value returns the values of the parent. It hides the parent from package context, whose key is a
// pointer to an int: derived contexts would register there.
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
