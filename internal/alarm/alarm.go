// SPDX-License-Identifier: Apache-2.0

// Package alarm ends the context of a call at a time that may change during the call.
package alarm

import (
	"context"
	"math"
	"sync"
	"time"
)

// Never is the time left until an alarm that does not ring.
const Never = time.Duration(math.MaxInt64)

// Alarm ends the contexts of calls, with a single call at a time. Most calls have no end of their own, and so
// the timer is made by Set. The zero value is ready for use. The methods are safe for concurrent use.
type Alarm struct {
	mu        sync.Mutex
	interrupt func()      // nil between calls
	timer     *time.Timer // nil: never
}

// Begin returns a context for a call, without a set time. The call's end calls stop, which releases the
// context. cause is the cause of a context that the alarm has ended.
func (a *Alarm) Begin(ctx context.Context, cause error) (call context.Context, stop func()) {
	call, cancel := context.WithCancelCause(ctx)
	a.begin(func() { cancel(cause) })
	return call, func() {
		a.begin(nil)
		cancel(nil)
	}
}

func (a *Alarm) begin(interrupt func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.interrupt = interrupt
	a.set(Never)
}

// Set sets the time from now until the context of the present call ends. It has no effect between calls.
func (a *Alarm) Set(left time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set(left)
}

func (a *Alarm) set(left time.Duration) {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.interrupt != nil && left < Never {
		a.timer = time.AfterFunc(left, a.interrupt)
	}
}
