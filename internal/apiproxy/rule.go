// SPDX-License-Identifier: Apache-2.0

package apiproxy

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Outcome is what becomes of a request that a rule is for.
type Outcome int

// What can become of a request.
const (
	// Forward leaves the request to the next rule that is for it, and to the
	// server if there is none: it is what a rule that only delays does.
	Forward Outcome = iota
	// Answer answers in the server's place, with the rule's Code. The server does
	// not see the request.
	Answer
	// Hang keeps the request until its client gives up; when the rule is removed
	// it is cut. The server does not see it.
	Hang
	// Cut resets the client's connection, and so all else that is under way on
	// it. The server does not see the request.
	Cut
	// Lose forwards the request, waits for the server's answer, and resets the
	// client's connection instead of giving it: what was asked is done, but the
	// client cannot know.
	Lose
)

// Rule is a fault and whom it is for.
type Rule struct {
	// Match says which requests the rule is for; it is called by several
	// goroutines. Defaults to all of them.
	Match func(Request) bool
	// Times is how many requests it is for. Defaults to all, until it is removed.
	Times int
	// Delay is how long a request waits before anything else happens to it.
	// Removing the rule ends the wait. Delays of several rules add up.
	Delay time.Duration
	// Then is what becomes of the request. Defaults to Forward.
	Then Outcome
	// Code is the HTTP status of an Answer, 400 or above: the body is a Status
	// such as the API server gives with it.
	Code int
	// RetryAfter is what an Answer asks for in its header, in whole seconds.
	// Defaults to no header.
	RetryAfter time.Duration
}

func (r Rule) validate() error {
	switch {
	case r.Times < 0:
		return fmt.Errorf("Times: %d is negative", r.Times)
	case r.Delay < 0:
		return fmt.Errorf("Delay: %v is negative", r.Delay)
	case r.Then < Forward || r.Then > Lose:
		return fmt.Errorf("Then: %d is no outcome", r.Then)
	case r.Then == Answer && (r.Code < 400 || r.Code > 599):
		return fmt.Errorf("Code: %d is no error of HTTP", r.Code)
	case r.Then != Answer && (r.Code != 0 || r.RetryAfter != 0):
		return errors.New("Code and RetryAfter: only an Answer has them")
	case r.RetryAfter < 0 || r.RetryAfter%time.Second != 0:
		return fmt.Errorf("RetryAfter: %v is not a number of seconds", r.RetryAfter)
	}
	return nil
}

// injected is a rule that is in force.
type injected struct {
	Rule
	used    atomic.Int64
	removed chan struct{} // closed when the rule is no longer in force
}

// takes reports whether the rule is for req and not spent, and counts it.
func (r *injected) takes(req Request) bool {
	if r.Match != nil && !r.Match(req) {
		return false
	}
	return r.Times == 0 || r.used.Add(1) <= int64(r.Times)
}

// rules are those in force, in the order of injection. A value is never changed.
type rules []*injected

// take returns what applies to a request, and counts it: the rules for it up to
// the first that ends it.
func (rs rules) take(req Request) []*injected {
	var out []*injected
	for _, r := range rs {
		if !r.takes(req) {
			continue
		}
		out = append(out, r)
		if r.Then != Forward {
			break
		}
	}
	return out
}

// with returns the rules and r.
func (rs rules) with(r *injected) rules { return append(slices.Clip(rs), r) }

// without returns the rules but r.
func (rs rules) without(r *injected) rules {
	return slices.DeleteFunc(slices.Clone(rs), func(other *injected) bool { return other == r })
}
