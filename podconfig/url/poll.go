// SPDX-License-Identifier: Apache-2.0

package url

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

type sum = [sha256.Size]byte

// body is the state of the last complete body.
type body struct {
	known      bool
	sum        sum
	validators validators
	// err is the error of the body. The same body is not decoded again.
	err error
}

// Result is the result of a Poll.
type Result struct {
	// Pods are all pods to run, in the order of the manifest. The source shares them between
	// results; do not edit them. Nil until Ready.
	Pods []*v1.Pod
	// Ready reports whether a poll has succeeded at least once.
	Ready bool
	// Changed reports whether Pods or Ready differs from the previous result.
	Changed bool
	// Problem is nil or an *Error: the reason for a failed poll, or ErrEmptyBody.
	Problem error
	// Next is the wait before the next poll.
	Next time.Duration
}

// Poll sends a single request to the server. Run calls it repeatedly. A failed poll changes
// nothing. Poll must not be called concurrently with itself or Run. The error is the cause of ctx.
func (s *Source) Poll(ctx context.Context) (Result, error) {
	limited, cancel := context.WithTimeoutCause(ctx, Timeout, timeoutError{Timeout})
	defer cancel()
	a, err := s.fetch(limited, s.last.validators)
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	changed := false
	switch {
	case err != nil:
	case a.unchanged:
		err = s.last.err
	default:
		changed, err = s.decodeBody(a)
	}
	return s.result(changed, err), nil
}

// decodeBody decodes a complete body, unless the body is known.
func (s *Source) decodeBody(a answer) (changed bool, err error) {
	sum := sha256.Sum256(a.data)
	if s.last.known && s.last.sum == sum {
		s.last.validators = a.validators
		return false, s.last.err
	}
	s.last = body{known: true, sum: sum, validators: a.validators}
	if s.goodSum == sum {
		return false, nil
	}
	var pods []*v1.Pod
	if len(a.data) == 0 {
		s.last.err = ErrEmptyBody
	} else if pods, err = s.decode(a.data, manifest.Origin{Kind: manifest.OriginURL, Location: s.shown}); err != nil {
		s.last.err = err
		return false, err
	}
	changed = !s.good || len(s.pods)+len(pods) > 0
	s.good, s.goodSum, s.pods = true, sum, pods
	return changed, s.last.err
}

func (s *Source) result(changed bool, err error) Result {
	r := Result{Pods: slices.Clone(s.pods), Ready: s.good, Changed: changed}
	var wanted time.Duration
	if !s.good {
		s.failures++
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		wanted = status.RetryAfter
	}
	if err != nil {
		r.Problem = &Error{URL: s.shown, Err: err}
	}
	r.Next = delay(s.period, s.good, s.failures, wanted, s.random())
	return r
}
