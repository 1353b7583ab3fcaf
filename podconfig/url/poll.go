// SPDX-License-Identifier: Apache-2.0

package url

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

type sum = [sha256.Size]byte

// body is what is known of the last complete body.
type body struct {
	known      bool
	sum        sum
	validators validators
	// err is why it cannot be used. As long as the server sends it again, it is not decoded again.
	err error
}

// Result is what a poll gave.
type Result struct {
	// Pods is all pods to run, in the order of the manifest. Read-only: the source keeps them and hands them out again.
	// Nil until Ready.
	Pods []*v1.Pod
	// Ready tells that a poll has succeeded at least once.
	Ready bool
	// Changed tells that Pods or Ready is not what the poll before gave.
	Changed bool
	// Problem is nil or an *Error: why the poll failed, or ErrEmptyBody.
	Problem error
	// Next is how long to wait before the next poll.
	Next time.Duration
}

// Poll asks the server once: the step that Run repeats. A poll that fails, in whatever way, changes nothing. It must not
// be called concurrently with itself or Run. The error is ctx's alone.
func (s *Source) Poll(ctx context.Context) (Result, error) {
	limited, cancel := context.WithTimeoutCause(ctx, s.timeout, timeoutError{s.timeout})
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
		changed, err = s.take(a)
	}
	return s.result(changed, err), nil
}

// take makes pods of a complete body, unless it is one that is known.
func (s *Source) take(a answer) (changed bool, err error) {
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
	} else if pods, err = s.decoder.Pods(a.data, manifest.Origin{Kind: manifest.OriginURL, Location: s.shown}); err != nil {
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
	r.Next = delay(s.period, s.good, s.failures, wanted, rand.Float64())
	return r
}
