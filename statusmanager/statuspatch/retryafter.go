// SPDX-License-Identifier: Apache-2.0

package statuspatch

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// longestRetryAfter is the longest delay of a Status. The manager has a shorter limit.
const longestRetryAfter = math.MaxInt32 * time.Second

// asked carries the Retry-After of an answer from the transport to the code that made the request.
// client-go drops the header if the body is a Status.
type asked struct{ retryAfter time.Duration }

type askedKey struct{}

// withAsked returns a ctx for one request, and an asked that receives the Retry-After of the
// answer.
func withAsked(ctx context.Context) (context.Context, *asked) {
	a := &asked{}
	return context.WithValue(ctx, askedKey{}, a), a
}

// noting is a transport that stores the Retry-After of error answers in asked.
type noting struct{ next http.RoundTripper }

// RoundTrip makes noting a transport.
func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.next.RoundTrip(r)
	if err != nil || response.StatusCode < http.StatusBadRequest {
		return response, err
	}
	if a, ok := r.Context().Value(askedKey{}).(*asked); ok {
		a.retryAfter = parseRetryAfter(response.Header.Get("Retry-After"), time.Now())
	}
	return response, nil
}

// parseRetryAfter parses seconds or a date. Invalid values and past dates are 0.
func parseRetryAfter(value string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		d = time.Duration(min(seconds, int(longestRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), longestRetryAfter)
}

// in sets the delay in err, if err is an API status without a delay.
func (a *asked) in(err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || a.retryAfter == 0 {
		return err
	}
	if d := status.ErrStatus.Details; d != nil && d.RetryAfterSeconds > 0 {
		return err
	}
	answer := *status.ErrStatus.DeepCopy()
	if answer.Details == nil {
		answer.Details = &metav1.StatusDetails{}
	}
	answer.Details.RetryAfterSeconds = int32((a.retryAfter + time.Second - 1) / time.Second)
	return &apierrors.StatusError{ErrStatus: answer}
}
