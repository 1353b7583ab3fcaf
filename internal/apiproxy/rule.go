// SPDX-License-Identifier: Apache-2.0

package apiproxy

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Outcome is the effect of a rule on a request.
type Outcome int

// The outcomes.
const (
	// Forward passes the request to the next matching rule, or to the server. Use Forward for a
	// rule with only a delay.
	Forward Outcome = iota
	// Answer answers in the server's place, with the rule's Code. The server does
	// not see the request.
	Answer
	// Hang keeps the request until the client gives up. When the rule is removed, the connection is
	// cut. The server does not see the request.
	Hang
	// Cut resets the client's connection with all other requests on the connection. The server does
	// not see the request.
	Cut
	// Lose forwards the request, waits for the server's answer, and resets the client's connection
	// instead of answering. The request is carried out, but the client cannot know.
	Lose
)

// Rule is a fault with the requests to affect.
type Rule struct {
	// Match selects requests; Match is called by several goroutines. Defaults to all requests.
	Match func(Request) bool
	// Times is the maximum number of affected requests. Defaults to no limit, until the rule is
	// removed.
	Times int
	// Delay is the wait before the outcome. Removing the rule ends the wait. Delays of several
	// rules add up.
	Delay time.Duration
	// Then is the outcome of the request. Defaults to Forward.
	Then Outcome
	// Code is the HTTP status of an Answer, 400 or above. The body is a Status as from the API
	// server.
	Code int
	// RetryAfter is the Retry-After header of an Answer, in whole seconds. Defaults to no header.
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

// injected is an active rule.
type injected struct {
	Rule
	used    atomic.Int64
	removed chan struct{} // closed when the rule is no longer in force
}

// takes reports whether the rule matches req and is not exhausted, and counts the request.
func (r *injected) takes(req Request) bool {
	if r.Match != nil && !r.Match(req) {
		return false
	}
	return r.Times == 0 || r.used.Add(1) <= int64(r.Times)
}

// rules are the active rules, in the order of injection. A value is never changed.
type rules []*injected

// take returns the rules that apply to a request, up to the first with an outcome other than
// Forward, and counts the request.
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

// without returns the rules without r.
func (rs rules) without(r *injected) rules {
	return slices.DeleteFunc(slices.Clone(rs), func(other *injected) bool { return other == r })
}
