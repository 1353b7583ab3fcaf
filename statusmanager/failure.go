// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/retry"
)

// verdict is the classification of a finished request.
type verdict uint8

const (
	// verdictDone: the request was carried out.
	verdictDone verdict = iota
	// verdictGone: the server does not have the pod.
	verdictGone
	// verdictConflict: the server has another pod with the same name, or the pod was changed
	// concurrently.
	verdictConflict
	// verdictBusy: not carried out; the server said when to come again.
	verdictBusy
	// verdictRejected: the server refuses the request permanently.
	verdictRejected
	// verdictFailed: the server failed, or did not answer. The request may have been carried out.
	verdictFailed
)

// longestRetryAfter is the longest accepted delay of a server. Longer delays are shortened, so that
// a bogus answer does not keep a status from a recovered server.
const longestRetryAfter = time.Minute

// judge classifies an error of a Patcher and returns the delay requested by the server.
func judge(err error) (v verdict, retryAfter time.Duration) {
	if err == nil {
		return verdictDone, 0
	}
	seconds, _ := apierrors.SuggestsClientDelay(err)
	retryAfter = min(time.Duration(seconds)*time.Second, longestRetryAfter)
	var api apierrors.APIStatus // no error type, so errors.AsType does not do
	switch {
	case errors.Is(err, errAnotherPod):
		return verdictConflict, 0
	case !errors.As(err, &api):
		return verdictFailed, retryAfter
	}
	switch code := api.Status().Code; {
	case code == http.StatusNotFound, code == http.StatusGone:
		return verdictGone, 0
	case code == http.StatusConflict, code == http.StatusUnprocessableEntity && isAnother(api.Status().Details):
		return verdictConflict, retryAfter
	case code == http.StatusTooManyRequests, code == http.StatusUnauthorized: // a new token may arrive
		return verdictBusy, retryAfter
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout:
		return verdictRejected, retryAfter
	}
	return verdictFailed, retryAfter
}

// isAnother reports whether the server rejected the UID. In this way the server (1.36) reports
// another pod with the same name for a patch; for a deletion the server reports a conflict.
func isAnother(details *metav1.StatusDetails) bool {
	return details != nil && slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// delay returns the time until the next try after the n-th failure in a row: doubling from initialBackoff
// up to MaxBackoff and jittered, but at least the server's Retry-After.
func delay(n int, retryAfter time.Duration, jitter func(time.Duration) time.Duration) time.Duration {
	d := max(jitter(retry.Backoff(n, initialBackoff, MaxBackoff, 0)), 0)
	if retryAfter > 0 { // spread retries with the same Retry-After
		d = max(d, retryAfter+max(jitter(retryAfter/4)-retryAfter/4, 0))
	}
	return d
}
