// SPDX-License-Identifier: Apache-2.0

// Package faults is shared by the fakes. It selects the calls struck by a fault, and prints journals.
package faults

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrReplyLost is the error of a call that was carried out but whose reply was lost.
var ErrReplyLost = errors.New("the connection broke before the reply came")

// Strikes selects the calls struck by a fault. The owner must guard Strikes with a lock.
type Strikes struct {
	// Nth selects a single call, counting matching calls from 1. 0: every call.
	Nth int
	// Times is the maximum number of struck calls, from the first or the Nth on. 0: one if Nth is set, else all.
	Times int
	// Until is the end of the fault. Zero: no end.
	Until time.Time

	applied, hits int
}

// Due counts a matching call and reports whether the fault strikes the call.
func (s *Strikes) Due(now time.Time) bool {
	if !s.Until.IsZero() && !now.Before(s.Until) {
		return false
	}
	s.applied++
	first, times := max(s.Nth, 1), s.Times
	if times == 0 && s.Nth > 0 {
		times = 1
	}
	if s.applied < first || times > 0 && s.applied >= first+times {
		return false
	}
	s.hits++
	return true
}

// Hits returns the number of struck calls.
func (s *Strikes) Hits() int { return s.hits }

// Lines returns one line per entry.
func Lines[E fmt.Stringer](entries []E) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}
